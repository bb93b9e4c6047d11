//! Request methods (RFC 9110 section 9); unknown but well-formed ones are carried through.

macro_rules! methods {
    ($($variant:ident = $name:literal,)*) => {
        /// What the request line begins with.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Method {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
            /// A token that is none of them.
            Extension(Box<[u8]>),
        }

        impl Method {
            /// Methods are case-sensitive (RFC 9110 section 9.1).
            pub fn of(token: &[u8]) -> Method {
                $(if token == $name.as_bytes() { return Method::$variant; })*
                Method::Extension(token.into())
            }

            /// As on the request line.
            pub fn as_bytes(&self) -> &[u8] {
                match self { $(Method::$variant => $name.as_bytes(),)* Method::Extension(token) => token }
            }
        }
    };
}

methods! {
    Get = "GET", Post = "POST", Put = "PUT", Delete = "DELETE", Head = "HEAD", Options = "OPTIONS",
    Patch = "PATCH", Connect = "CONNECT", Trace = "TRACE", Purge = "PURGE", Lock = "LOCK", Unlock = "UNLOCK",
    Propfind = "PROPFIND", Mkcol = "MKCOL", Copy = "COPY", Move = "MOVE",
}

impl Method {
    /// The method as text; methods are ASCII tokens.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or("")
    }
}
