//! The program and the libraries as they lie in memory, with what unwinding needs of their files.

use std::{
    fs::{self, File},
    ops::Range,
    os::unix::fs::{FileExt, MetadataExt},
    rc::Rc,
};

use framehop::{ExplicitModuleSectionInfo, Unwinder as _};
use object::{Object, ObjectSection, ObjectSegment, ReadCache, ReadRef};

/// Larger sections are not read: no program has them.
const MOST_BYTES: u64 = 256 << 20;

/// What executable memory may belong to.
#[derive(Clone)]
pub(crate) enum Source {
    File(Rc<File>),
    /// Copied from memory: the kernel's part of each process.
    Memory(Rc<[u8]>),
}

/// An executable mapping of a file.
pub(crate) struct Module {
    pub path: String,
    pub range: Range<u64>,
    /// Of the file, where the mapping begins.
    pub offset: u64,
    /// What is added to addresses in the file.
    pub bias: u64,
    pub build_id: String,
    pub source: Source,
}

/// All of them, by address.
pub(crate) struct Modules {
    pub list: Vec<Module>,
    pub unwinder: framehop::UnwinderNative<Vec<u8>, framehop::MayAllocateDuringUnwind>,
}

impl Modules {
    /// As they are now. What cannot be read is left out; stacks end there.
    pub(crate) fn of_this_process() -> Modules {
        let mut modules = Modules { list: Vec::new(), unwinder: framehop::UnwinderNative::new() };
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        for mapping in maps.lines().filter_map(Mapping::parse) {
            let Some(source) = mapping.source() else { continue };
            let read = match &source {
                Source::File(file) => read(&ReadCache::new(file.as_ref()), &mapping),
                Source::Memory(bytes) => read(bytes.as_ref(), &mapping),
            };
            let Some((bias, build_id, sections)) = read else { continue };
            let Mapping { range, offset, path, .. } = mapping;
            modules.unwinder.add_module(framehop::Module::new(path.clone(), range.clone(), bias, sections));
            modules.list.push(Module { path, range, offset, bias, build_id, source });
        }
        modules.list.sort_by_key(|module| module.range.start);
        modules
    }

    pub(crate) fn position(&self, address: u64) -> Option<usize> {
        let after = self.list.partition_point(|module| module.range.start <= address);
        let position = after.checked_sub(1)?;
        self.list.get(position)?.range.contains(&address).then_some(position)
    }
}

/// A line of /proc/self/maps.
struct Mapping {
    range: Range<u64>,
    offset: u64,
    inode: u64,
    path: String,
}

impl Mapping {
    /// Only executable ones.
    fn parse(line: &str) -> Option<Mapping> {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let range = number(start)?..number(end)?;
        fields.next()?.contains('x').then_some(())?;
        let offset = number(fields.next()?)?;
        let inode = fields.nth(1)?.parse().ok()?;
        let path = fields.collect::<Vec<_>>().join(" ");
        (!path.is_empty()).then_some(Mapping { range, offset, inode, path })
    }

    fn source(&self) -> Option<Source> {
        if self.path == "[vdso]" {
            let length = self.range.end.checked_sub(self.range.start)?;
            let mut bytes = vec![0; usize::try_from(length).ok()?];
            File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, self.range.start).ok()?;
            return Some(Source::Memory(bytes.into()));
        }
        // The program may have been replaced by a newer one: this leads to the one that runs.
        let candidates = ["/proc/self/exe", &self.path];
        candidates.iter().find_map(|path| {
            let file = File::open(path).ok()?;
            (file.metadata().ok()?.ino() == self.inode).then(|| Source::File(Rc::new(file)))
        })
    }
}

type Read = (u64, String, ExplicitModuleSectionInfo<Vec<u8>>);

fn read<'data, R: ReadRef<'data>>(data: R, mapping: &Mapping) -> Option<Read> {
    let file = object::File::parse(data).ok()?;
    let mut executable = file.segments().filter(|segment| segment.permissions().executable());
    let bias = executable.find_map(|segment| {
        let (offset, size) = segment.file_range();
        let pages = offset & !0xfff..offset.checked_add(size)?;
        let start = mapping.range.start.wrapping_sub(mapping.offset);
        pages.contains(&mapping.offset).then(|| start.wrapping_add(offset).wrapping_sub(segment.address()))
    })?;
    let build_id = file.build_id().ok().flatten().unwrap_or_default();
    let build_id = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let section = |name: &str| {
        let section = file.section_by_name(name).filter(|section| section.size() <= MOST_BYTES)?;
        let range = section.address()..section.address().checked_add(section.size())?;
        Some((range, section.data().ok()?.to_vec()))
    };
    let (eh_frame_svma, eh_frame) = section(".eh_frame").unzip();
    let (eh_frame_hdr_svma, eh_frame_hdr) = section(".eh_frame_hdr").unzip();
    let range = |name| {
        file.section_by_name(name).map(|section| section.address()..section.address() + section.size())
    };
    let sections = ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: range(".text"),
        got_svma: range(".got"),
        eh_frame_svma,
        eh_frame,
        eh_frame_hdr_svma,
        eh_frame_hdr,
        ..ExplicitModuleSectionInfo::default()
    };
    Some((bias, build_id, sections))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_mappings_are_read() {
        let line = "7f1-7f3 r-xp 0001e000 fe:00 123   /usr/lib/a name.so (deleted)";
        let mapping = Mapping::parse(line).expect("a mapping");
        assert_eq!((mapping.range, mapping.offset, mapping.inode), (0x7f1..0x7f3, 0x1e000, 123));
        assert_eq!(mapping.path, "/usr/lib/a name.so (deleted)");
        assert!(Mapping::parse("7f1-7f3 rw-p 0001e000 fe:00 123 /usr/lib/a").is_none());
        assert!(Mapping::parse("7f1-7f3 r-xp 00000000 00:00 0").is_none());
    }

    #[test]
    fn this_test_is_in_a_module() {
        let modules = Modules::of_this_process();
        #[expect(clippy::fn_to_numeric_cast_any, reason = "the address of code is what is looked up")]
        let here = this_test_is_in_a_module as *const () as u64;
        let module =
            modules.position(here).and_then(|position| modules.list.get(position)).expect("a module");
        assert!(module.path.contains("tidegate_profiler"), "{}", module.path);
        assert_eq!(modules.position(8), None);
    }
}
