//! What the handler of SIGPROF notes, and where: the only code that runs on a thread that is being sampled.
//!
//! A slot is in turn FREE, WRITING (a handler has it), FULL (the reader may have it). A handler that finds none free counts a lost sample.

use std::{
    cell::UnsafeCell,
    ffi::c_void,
    io,
    mem::{MaybeUninit, zeroed},
    ptr::null_mut,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
};

/// How much of a stack is copied, from its top on: what is above is cut.
const STACK_BYTES: usize = 64 * 1024;

/// What all cores sample until the reader comes again, with much to spare.
const SLOTS: usize = 64;

/// One address that is not mapped ends the copy at the next lower multiple of this; pages are not smaller anywhere.
const PIECE: u64 = 4096;
const PIECES: usize = STACK_BYTES / 4096 + 1;

const FREE: u8 = 0;
const WRITING: u8 = 1;
const FULL: u8 = 2;

/// A thread's state at one moment.
pub(crate) struct Sample {
    /// The kernel's number of the thread.
    pub thread: i32,
    pub registers: Registers,
    /// The stack from `registers.stack` on.
    stack: Box<[u8]>,
    copied: usize,
}

/// What unwinding begins with.
#[derive(Clone, Copy, Default)]
pub(crate) struct Registers {
    pub instruction: u64,
    pub stack: u64,
    pub frame: u64,
    /// Where the innermost function returns to, on processors that keep it in a register.
    #[cfg_attr(target_arch = "x86_64", allow(dead_code, reason = "it is on the stack there"))]
    pub link: u64,
}

impl Sample {
    /// The word at an address of the stack.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        let offset = usize::try_from(address.checked_sub(self.registers.stack)?).ok()?;
        let bytes = self.stack.get(..self.copied)?.get(offset..offset.checked_add(8)?)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    }
}

struct Slot {
    state: AtomicU8,
    sample: UnsafeCell<Sample>,
}

// SAFETY: `sample` is touched by the one who moved `state` from FREE to WRITING, until it is FULL, and then by the one reader
// (`drain` is called in a turn of `take`, of which there is one), until it is FREE.
unsafe impl Sync for Slot {}

/// Made once and kept: a handler may still be under way when a profile has ended. Pages that were never written to take no memory.
static SLOTS_OF_PROCESS: OnceLock<Box<[Slot]>> = OnceLock::new();
static ON: AtomicBool = AtomicBool::new(false);
static LOST: AtomicU64 = AtomicU64::new(0);

/// Installs the handler and lets it take samples. It stays installed: SIGPROF without one would end the process.
pub(crate) fn begin() -> io::Result<()> {
    SLOTS_OF_PROCESS.get_or_init(|| {
        let slot = || Slot {
            state: AtomicU8::new(FREE),
            sample: UnsafeCell::new(Sample {
                thread: 0,
                registers: Registers::default(),
                stack: vec![0; STACK_BYTES].into_boxed_slice(),
                copied: 0,
            }),
        };
        (0..SLOTS).map(|_| slot()).collect()
    });
    // SAFETY: all zeros is a valid `sigaction`; the handler has the signature that SA_SIGINFO asks for, and is safe to run at any
    // instruction: it only does what `on_signal` says.
    let installed = unsafe {
        let mut action: libc::sigaction = zeroed();
        #[expect(clippy::fn_to_numeric_cast_any, reason = "sigaction(2) takes the handler as a number")]
        let handler = on_signal as *const () as usize;
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(libc::SIGPROF, &raw const action, null_mut())
    };
    if installed != 0 {
        return Err(io::Error::last_os_error());
    }
    LOST.store(0, Ordering::Relaxed);
    ON.store(true, Ordering::Release);
    Ok(())
}

/// Lets the handler take no more samples.
pub(crate) fn end() {
    ON.store(false, Ordering::Release);
}

/// Samples for which there was no room.
pub(crate) fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Hands over what the handlers have noted.
pub(crate) fn drain(mut take: impl FnMut(&Sample)) {
    for slot in SLOTS_OF_PROCESS.get().into_iter().flatten() {
        if slot.state.load(Ordering::Acquire) == FULL {
            // SAFETY: FULL slots are the reader's.
            take(unsafe { &*slot.sample.get() });
            slot.state.store(FREE, Ordering::Release);
        }
    }
}

/// Runs between any two instructions of any thread: no allocation, no lock, no panic, and `errno` stays what it is.
extern "C" fn on_signal(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    if !ON.load(Ordering::Acquire) {
        return;
    }
    // SAFETY: `errno` is this thread's own.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel gives a handler with SA_SIGINFO both, for as long as it runs.
    let given = unsafe { (info.as_ref(), context.cast::<libc::ucontext_t>().as_ref()) };
    if let (Some(info), Some(context)) = given
        && info.si_code == libc::SI_TIMER
    {
        // SAFETY: signals of timers have a value.
        let thread = unsafe { info.si_value() }.sival_ptr.addr() as i32;
        record(thread, registers(context));
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

fn record(thread: i32, registers: Registers) {
    let mut slots = SLOTS_OF_PROCESS.get().into_iter().flatten();
    let free = slots.find(|slot| {
        slot.state.compare_exchange(FREE, WRITING, Ordering::Acquire, Ordering::Relaxed).is_ok()
    });
    let Some(slot) = free else {
        LOST.fetch_add(1, Ordering::Relaxed);
        return;
    };
    // SAFETY: the slot is this handler's until it is FULL.
    let sample = unsafe { &mut *slot.sample.get() };
    sample.thread = thread;
    sample.registers = registers;
    sample.copied = copy(registers.stack, &mut sample.stack);
    slot.state.store(FULL, Ordering::Release);
}

#[cfg(target_arch = "x86_64")]
fn registers(context: &libc::ucontext_t) -> Registers {
    let of = |number: libc::c_int| {
        context.uc_mcontext.gregs.get(number as usize).copied().unwrap_or_default() as u64
    };
    Registers { instruction: of(libc::REG_RIP), stack: of(libc::REG_RSP), frame: of(libc::REG_RBP), link: 0 }
}

#[cfg(target_arch = "aarch64")]
fn registers(context: &libc::ucontext_t) -> Registers {
    let machine = &context.uc_mcontext;
    let of = |number: usize| machine.regs.get(number).copied().unwrap_or_default();
    Registers { instruction: machine.pc, stack: machine.sp, frame: of(29), link: of(30) }
}

/// Copies memory from `address` on, up to what is not mapped. The kernel does it, so that no address can do harm.
fn copy(address: u64, into: &mut [u8]) -> usize {
    let empty = libc::iovec { iov_base: null_mut(), iov_len: 0 };
    let mut from = [empty; PIECES];
    let (mut at, mut left) = (address, into.len());
    for piece in &mut from {
        let length = usize::try_from(PIECE - at % PIECE).unwrap_or_default().min(left);
        *piece = libc::iovec { iov_base: at as *mut c_void, iov_len: length };
        at = at.wrapping_add(length as u64);
        left -= length;
    }
    let to = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: it writes to `into` only, at most its length; what it reads is checked by the kernel.
    let copied = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const to, 1, from.as_ptr(), PIECES as libc::c_ulong, 0)
    };
    usize::try_from(copied).unwrap_or_default()
}

/// Whether stacks can be copied here: a sandbox may forbid it.
pub(crate) fn can_copy() -> bool {
    let here = MaybeUninit::<u64>::zeroed();
    copy(here.as_ptr().addr() as u64, &mut [0; 8]) == 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_ends_where_memory_does() {
        let text = [7u8; 10_000];
        let mut into = vec![0; STACK_BYTES];
        let copied = copy(text.as_ptr().addr() as u64, &mut into);
        assert!(copied >= text.len() && into.starts_with(&text), "{copied}");
        assert_eq!(copy(8, &mut into), 0);
        assert!(can_copy());
    }

    #[test]
    fn words_are_read_within_the_copy_only() {
        let stack: Box<[u8]> = [1u64, 2, 3].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let registers = Registers { stack: 1000, ..Registers::default() };
        let sample = Sample { thread: 1, registers, stack, copied: 16 };
        let read = [992, 1000, 1008, 1012, 1016, u64::MAX].map(|address| sample.word(address));
        assert_eq!(read, [None, Some(1), Some(2), None, None, None]);
    }
}
