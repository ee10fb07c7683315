//! Random bytes from the kernel, drawn a page at a time: one system call serves about a hundred grants.

use std::cell::RefCell;

const POOL: usize = 4096;

struct Pool {
    bytes: Box<[u8; POOL]>,
    used: usize,
}

thread_local! {
    static BYTES: RefCell<Pool> = RefCell::new(Pool { bytes: Box::new([0; POOL]), used: POOL });
}

/// `N` bytes that nobody else has seen; they are wiped from the pool.
///
/// # Panics
/// When the kernel gives no random bytes: without them ids could repeat, so nothing may go on.
pub(super) fn bytes<const N: usize>() -> [u8; N] {
    const { assert!(N <= POOL) };
    BYTES.with_borrow_mut(|pool| {
        if POOL - pool.used < N {
            getrandom::fill(&mut pool.bytes[..]).expect("the kernel gives random bytes");
            pool.used = 0;
        }
        let taken = &mut pool.bytes[pool.used..pool.used + N];
        let mut out = [0; N];
        out.copy_from_slice(taken);
        taken.fill(0);
        pool.used += N;
        out
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn no_draw_repeats_across_refills_and_threads() {
        let draw = || (0..1000).map(|_| super::bytes::<32>()).collect::<BTreeSet<_>>();
        let mut seen = draw();
        seen.extend(std::thread::spawn(draw).join().unwrap());
        assert_eq!(seen.len(), 2000);
    }
}
