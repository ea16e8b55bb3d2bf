//! Results with gradients of their own.

use std::sync::{Mutex, PoisonError};

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CudaStorage, CustomOp2, Layout, MetalStorage, Result, Shape, Storage, Tensor, bail};

/// `result`, new and contiguous, computed from `args` without a graph, whose gradients `backward` computes
/// from that of the result. Candle differentiates an operation at a time: each adds to zeros, and also for
/// what needs no gradient.
///
/// The second argument may be the first again, with `None` for its gradient.
pub(super) fn with_gradients(
    result: Tensor,
    args: [&Tensor; 2],
    backward: impl Fn(&Tensor) -> Result<[Option<Tensor>; 2]> + Send + Sync + 'static,
) -> Result<Tensor> {
    if args.iter().any(|arg| arg.track_op()) {
        args[0].apply_op2(args[1], Computed { result: Mutex::new(Some(result)), backward })
    } else {
        Ok(result)
    }
}

struct Computed<B> {
    /// Until candle has it: the graph would keep it twice.
    result: Mutex<Option<Tensor>>,
    backward: B,
}

impl<B> Computed<B> {
    /// A copy of the result, as candle wants a new one.
    fn copy<S: BackendStorage>(&self, here: impl Fn(&Storage) -> Option<&S>) -> Result<(S, Shape)> {
        let result = self.result.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(result) = result else { bail!("the result of an operation is asked for twice") };
        let (storage, layout) = result.storage_and_layout();
        let Some(storage) = here(&storage) else { bail!("the result of an operation is on another device") };
        Ok((storage.try_clone(layout)?, layout.shape().clone()))
    }
}

impl<B: Fn(&Tensor) -> Result<[Option<Tensor>; 2]>> CustomOp2 for Computed<B> {
    fn name(&self) -> &'static str {
        "computed"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        self.copy(|storage| if let Storage::Cpu(here) = storage { Some(here) } else { None })
    }

    fn cuda_fwd(&self, _: &CudaStorage, _: &Layout, _: &CudaStorage, _: &Layout) -> Result<(CudaStorage, Shape)> {
        self.copy(|storage| if let Storage::Cuda(here) = storage { Some(here) } else { None })
    }

    fn metal_fwd(&self, _: &MetalStorage, _: &Layout, _: &MetalStorage, _: &Layout) -> Result<(MetalStorage, Shape)> {
        self.copy(|storage| if let Storage::Metal(here) = storage { Some(here) } else { None })
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, _: &Tensor, grad: &Tensor) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let [first, second] = (self.backward)(&grad.contiguous()?)?;
        Ok((first, second))
    }
}
