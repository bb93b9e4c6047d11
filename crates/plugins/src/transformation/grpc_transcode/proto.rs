//! The texts of `protos` resources: protobuf source, or a descriptor set in base64.

use std::sync::OnceLock;

use prost_reflect::{DescriptorPool, MessageDescriptor, MethodDescriptor};
use protox::{
    Compiler, Error,
    file::{ChainFileResolver, File, FileResolver, GoogleFileResolver},
};
use tidegate_clients::nginx_base64;

const NAME: &str = "content.proto";

#[derive(Debug)]
pub(super) struct Compiled {
    pub pool: DescriptorPool,
    /// Source text offers its own services only, a set those of all its files.
    own_only: bool,
}

impl Compiled {
    pub(super) fn method(&self, service: &str, method: &str) -> Option<MethodDescriptor> {
        let service = self.pool.get_service_by_name(service)?;
        if self.own_only && service.parent_file().name() != NAME {
            return None;
        }
        service.methods().find(|candidate| candidate.name() == method)
    }
}

/// The error is that of the source: a set has nothing to say.
pub(super) fn compile(content: &str) -> Result<Compiled, String> {
    match from_source(content) {
        Ok(pool) => Ok(Compiled { pool, own_only: true }),
        Err(reason) => match from_set(content) {
            Some(pool) => Ok(Compiled { pool, own_only: false }),
            None => Err(reason),
        },
    }
}

/// For the Admin API.
pub(crate) fn check(content: &str) -> Result<(), String> {
    compile(content).map(drop)
}

/// One text; what comes with protobuf itself may be imported.
struct OneFile(String);

impl FileResolver for OneFile {
    fn open_file(&self, name: &str) -> Result<File, Error> {
        if name == NAME { File::from_source(name, &self.0) } else { Err(Error::file_not_found(name)) }
    }
}

fn from_source(content: &str) -> Result<DescriptorPool, String> {
    let mut files = ChainFileResolver::new();
    files.add(OneFile(content.to_owned()));
    files.add(GoogleFileResolver::new());
    let mut compiler = Compiler::with_file_resolver(files);
    compiler.open_file(NAME).map_err(|error| format!("{error:?}"))?;
    Ok(compiler.descriptor_pool())
}

fn from_set(content: &str) -> Option<DescriptorPool> {
    let bytes = nginx_base64::decode(content.trim().as_bytes()).filter(|bytes| !bytes.is_empty())?;
    let pool = DescriptorPool::decode(bytes.as_slice()).ok()?;
    let empty = pool.files().len() == 0;
    (!empty).then_some(pool)
}

/// `google.rpc.Status`, as far as it is shown.
const STATUS: &str = "syntax = \"proto3\";
message Detail { string type_url = 1; bytes value = 2; }
message Status { int32 code = 1; string message = 2; repeated Detail details = 3; }";

pub(crate) fn status_descriptor() -> Option<MessageDescriptor> {
    static DESCRIPTOR: OnceLock<Option<MessageDescriptor>> = OnceLock::new();
    DESCRIPTOR
        .get_or_init(|| from_source(STATUS).ok().and_then(|pool| pool.get_message_by_name("Status")))
        .clone()
}

#[cfg(test)]
mod tests {
    use prost_reflect::prost::Message;

    use super::*;

    const HELLO: &str = "syntax = \"proto3\";
        package p;
        import \"google/protobuf/struct.proto\";
        service S { rpc M (A) returns (google.protobuf.Struct) {} }
        message A { string name = 1; }";

    #[test]
    fn sources_and_sets() {
        let compiled = compile(HELLO).expect("a source");
        assert!(compiled.method("p.S", "M").is_some());
        assert!(compiled.method("p.S", "N").is_none() && compiled.method("S", "M").is_none());
        let set = nginx_base64::encode(compiled.pool.encode_to_vec());
        assert!(compile(&set).expect("a set").method("p.S", "M").is_some());
        let set = prost_reflect::prost_types::FileDescriptorSet::default().encode_to_vec();
        for bad in
            ["", "syntax = ", "message A { int32 a = 1; int32 b = 1; }", "import \"other.proto\";", "!!"]
        {
            assert!(compile(bad).is_err() || bad.is_empty(), "{bad}");
        }
        assert!(set.is_empty());
        assert!(status_descriptor().is_some());
    }
}
