//! Which SIMD instructions a kernel of a network's layers runs with.

use pulp::{Arch, Simd, WithSimd};

/// The instruction set that networks are computed with on this processor, such as `V4` (AVX-512), `V3` (AVX2)
/// or `Neon`. Sums are equal to the last bit only where it is the same.
///
/// ```
/// assert!(!pronk_policy::instructions().is_empty());
/// ```
pub fn instructions() -> &'static str {
    Arch::new().dispatch(Name)
}

struct Name;

impl WithSimd for Name {
    type Output = &'static str;

    fn with_simd<S: Simd>(self, _simd: S) -> &'static str {
        let path = std::any::type_name::<S>();
        path.rsplit("::").next().unwrap_or(path)
    }
}

/// Runs a kernel with the best instructions that the processor has. A test can force lesser ones for its
/// thread by `Instructions::force`.
#[inline(always)]
pub(super) fn dispatch<K: WithSimd>(kernel: K) -> K::Output {
    #[cfg(test)]
    if let Some(instructions) = FORCED.get() {
        return instructions.run(kernel);
    }
    Arch::new().dispatch(kernel)
}

/// Makes a function run its body with the best SIMD instructions. A closure that is not inlined would run
/// without them.
macro_rules! vectorized {
    (
        $(#[$doc:meta])*
        fn $name:ident<$life:lifetime $(, $number:ident: $bound:path)?>($($arg:ident: $type:ty),* $(,)?) $body:block
    ) => {
        $(#[$doc])*
        pub(crate) fn $name<$life $(, $number: $bound)?>($($arg: $type),*) {
            struct Body<$life $(, $number: $bound)?> {
                $($arg: $type,)*
            }
            impl<$life $(, $number: $bound)?> pulp::NullaryFnOnce for Body<$life $(, $number)?> {
                type Output = ();

                #[inline(always)]
                fn call(self) {
                    let Self { $($arg),* } = self;
                    $body
                }
            }
            $crate::ops::instructions::dispatch(Body { $($arg),* });
        }
    };
}

pub(super) use vectorized;

#[cfg(test)]
thread_local! {
    static FORCED: std::cell::Cell<Option<Instructions>> = const { std::cell::Cell::new(None) };
}

/// The kernel paths that a test can force.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Instructions {
    /// Those that [`dispatch`] chooses. AVX-512 and NEON cannot be forced: only a machine that has them runs
    /// them.
    Chosen,
    /// One number at a time, as on a processor without SIMD.
    Scalar,
    /// Registers of four numbers, as NEON's, emulated.
    FourLanes,
    /// AVX2 with FMA, also where there is AVX-512.
    #[cfg(target_arch = "x86_64")]
    Avx2(pulp::x86::V3),
}

#[cfg(test)]
impl Instructions {
    /// All paths of this machine.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![Self::Chosen, Self::Scalar, Self::FourLanes];
        #[cfg(target_arch = "x86_64")]
        all.extend(pulp::x86::V3::try_new().map(Self::Avx2));
        all
    }

    /// Calls `body`, in which the kernels of this thread run with these instructions.
    pub(crate) fn force<R>(self, body: impl FnOnce() -> R) -> R {
        with_forced(&FORCED, self, body)
    }

    fn run<K: WithSimd>(self, kernel: K) -> K::Output {
        match self {
            Self::Chosen => Arch::new().dispatch(kernel),
            Self::Scalar => pulp::Scalar::new().vectorize(kernel),
            Self::FourLanes => pulp::Scalar128b.vectorize(kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(simd) => Simd::vectorize(simd, kernel),
        }
    }
}

/// Calls `body` while this thread is forced to a choice.
#[cfg(test)]
pub(super) fn with_forced<T: 'static, R>(
    forced: &'static std::thread::LocalKey<std::cell::Cell<Option<T>>>,
    choice: T,
    body: impl FnOnce() -> R,
) -> R {
    let before = forced.replace(Some(choice));
    let result = body();
    forced.set(before);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Lanes;

    impl WithSimd for Lanes {
        type Output = usize;

        fn with_simd<S: Simd>(self, _: S) -> usize {
            S::F32_LANES
        }
    }

    #[test]
    fn a_kernel_runs_with_the_instructions_that_are_forced_and_only_then() {
        let chosen = dispatch(Lanes);
        for instructions in Instructions::all() {
            let lanes = match instructions {
                Instructions::Chosen => chosen,
                Instructions::Scalar => 1,
                Instructions::FourLanes => 4,
                #[cfg(target_arch = "x86_64")]
                Instructions::Avx2(_) => 8,
            };
            assert_eq!(instructions.force(|| dispatch(Lanes)), lanes, "{instructions:?}");
            assert_eq!(dispatch(Lanes), chosen);
        }
    }
}
