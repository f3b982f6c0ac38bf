//! Counts the bytes that a thread asks the allocator for: how work grows with its input, without a clock.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[expect(unsafe_code, reason = "an allocator is unsafe by its trait; this one passes everything on")]
// SAFETY: every call goes to the system's allocator as it came. Counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.saturating_sub(layout.size()));
        unsafe { System.realloc(pointer, layout, size) }
    }
}

fn count(bytes: usize) {
    // A thread that ends has no counter any more.
    let _ = BYTES.try_with(|counter| counter.set(counter.get().wrapping_add(bytes)));
}

/// Runs something, and returns its result and how many bytes it asked for.
pub(crate) fn of<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = BYTES.get();
    let result = run();
    (result, BYTES.get().wrapping_sub(before))
}
