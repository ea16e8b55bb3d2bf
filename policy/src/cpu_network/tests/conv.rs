//! What a convolution does not compute.

use super::batch::random_params;
use super::*;
use crate::cpu_network::conv::Conv;
use crate::cpu_network::image_layout::ImageLayout;
use crate::cpu_network::packing::Packing;
use crate::cpu_network::weights::Weights;
use crate::ops::Finish;
use crate::spec::EncoderLayers;

/// The convolutions above another one, whose inputs have gradients.
fn convolutions(spec: &NetworkSpec) -> Vec<crate::spec::Conv> {
    match spec.towers().swap_remove(0).encoder {
        EncoderLayers::Mlp { .. } => Vec::new(),
        EncoderLayers::Nature { convs, .. } => convs.into_iter().skip(1).collect(),
        EncoderLayers::Impala { sections, .. } => {
            sections.into_iter().flat_map(|section| section.blocks.into_iter().flatten()).collect()
        }
    }
}

#[test]
fn the_gradient_of_an_input_takes_no_rows_above_and_below_the_image() {
    let nature = (image(2, 37, 42), Encoder::nature_cnn());
    let residual = (image(3, 9, 7), Encoder::ImpalaCnn { channels: vec![4, 20], hidden: 30 });
    for (obs, encoder) in [nature, residual] {
        let spec = spec(obs, encoder, None, Torso::Shared);
        let (params, layout) = (random_params(&spec, 1), spec.layout().unwrap());
        for conv in convolutions(&spec) {
            let mut packing = Packing::default();
            let image = |image| ImageLayout::inner(image, conv.padding);
            let (from, to) = (image(conv.input), image(conv.output));
            let layer = Conv::new(&conv, from, to, Some(from), &layout, &mut packing).unwrap();
            let mut weights = Weights::default();
            weights.update_backward(&packing, &params);
            // With a border of zeros, and of NaN above and below.
            let [zeros, unknown] = [0.0, f32::NAN].map(|outside| {
                let canvas = layer.gradient;
                let mut g = vec![outside; canvas.len()];
                let rows = g.chunks_exact_mut(canvas.row()).skip(canvas.border).take(canvas.height);
                rows.for_each(|row| row.fill(0.0));
                canvas.rows_mut(&mut g).flatten().enumerate().for_each(|(i, g)| *g = (i % 7) as f32 - 3.0);
                let mut x_grad = vec![f32::NAN; from.len()];
                layer.input_gradient(&weights, &g, |_| Finish::Nothing, &mut x_grad);
                from.rows(&x_grad).flatten().copied().collect::<Vec<_>>()
            });
            assert!(zeros.iter().any(|&x| x != 0.0) && layer.gradient.border > 0);
            assert_eq!(zeros, unknown, "{conv:?}");
        }
    }
}
