#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView, serialize};

use super::{LoadError, MAX_HEADER_BYTES};
use crate::{ParamLayout, Params};

fn layout() -> Arc<ParamLayout> {
    Arc::new(ParamLayout::new([("torso.weight", vec![2, 3]), ("torso.bias", vec![3])]))
}

fn odd_values() -> Vec<f32> {
    vec![0.0, -0.0, f32::NAN, f32::INFINITY, f32::MIN_POSITIVE / 8.0, -1.5e-7, f32::MAX, 1.0 / 3.0, 7.0]
}

fn metadata() -> BTreeMap<String, String> {
    ["zebra", "pronk", "age"].map(|key| (key.to_owned(), format!("\"{key}\"\n"))).into()
}

fn file() -> Vec<u8> {
    Params::new(layout(), odd_values()).unwrap().to_safetensors(&metadata())
}

fn load(bytes: &[u8]) -> Result<Params, LoadError> {
    Params::from_safetensors(&layout(), bytes)
}

/// A file from the safetensors crate with these tensors.
fn foreign(tensors: &[(&str, Dtype, &[usize])]) -> Vec<u8> {
    let bytes = [0; 256];
    let view = |dtype: Dtype, shape: &[usize]| {
        let len = shape.iter().product::<usize>() * dtype.bitsize() / 8;
        TensorView::new(dtype, shape.to_vec(), &bytes[..len]).unwrap()
    };
    serialize(tensors.iter().map(|&(name, dtype, shape)| (name, view(dtype, shape))), None).unwrap()
}

#[test]
fn values_come_back_bit_for_bit() {
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(load(&file()).unwrap().values()), bits(&odd_values()));
}

#[test]
fn equal_parameters_give_equal_bytes() {
    assert!((0..20).all(|_| file() == file()));
    assert_eq!(load(&file()).unwrap().to_safetensors(&metadata()), file());
}

#[test]
fn other_programs_can_read_the_file_and_we_can_read_theirs() {
    let bytes = file();
    let theirs = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(theirs.tensor("torso.bias").unwrap().data()[8..], 7.0_f32.to_le_bytes());
    let (header_bytes, header) = SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(header.metadata().as_ref().unwrap()["pronk"], "\"pronk\"\n");
    assert_eq!(header_bytes % 8, 0, "the data is aligned");

    // Theirs may come in another order.
    let reordered = foreign(&[("torso.bias", Dtype::F32, &[3]), ("torso.weight", Dtype::F32, &[2, 3])]);
    assert_eq!(load(&reordered).unwrap().values(), [0.0; 9]);
}

#[test]
fn a_file_cut_anywhere_is_truncated() {
    let bytes = file();
    for len in 0..bytes.len() {
        match load(&bytes[..len]) {
            Err(LoadError::Truncated { expected, got }) => {
                assert_eq!(got, len);
                assert!(expected == bytes.len() as u64 || expected == 8 || expected < bytes.len() as u64 && len < 300);
            }
            other => panic!("{len} bytes: {other:?}"),
        }
    }
    let cut = load(&bytes[..bytes.len() - 4]).unwrap_err().to_string();
    let (full, short) = (bytes.len(), bytes.len() - 4);
    assert_eq!(
        cut,
        format!("weight file has {short} bytes where its header promises {full}: it was cut short or overwritten")
    );
    assert!(matches!(load(&[&bytes[..], &[0]].concat()), Err(LoadError::Truncated { .. })), "or has something behind");
}

#[test]
fn a_huge_header_is_refused_before_it_is_read() {
    for len in [MAX_HEADER_BYTES + 1, u64::MAX] {
        let bytes = [&len.to_le_bytes()[..], &[b' '; 64]].concat();
        assert!(matches!(load(&bytes), Err(LoadError::HeaderTooLong { bytes }) if bytes == len));
    }
}

#[test]
fn a_small_file_takes_little_memory_whatever_the_network_is() {
    let huge = Arc::new(ParamLayout::new([("torso.weight", vec![usize::MAX / 4])]));
    assert!(matches!(Params::from_safetensors(&huge, &file()), Err(LoadError::Shape { .. })));
}

#[test]
fn a_damaged_header_is_refused() {
    let mut bytes = file();
    bytes[8] = b'?';
    let error = load(&bytes).unwrap_err();
    assert!(matches!(error, LoadError::Damaged(_)), "{error:?}");
    assert!(std::error::Error::source(&error).is_some(), "the cause is kept");
    assert!(matches!(load(b"\x02\0\0\0\0\0\0\0{}"), Err(LoadError::Missing { .. })));
    let overlapping = br#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}}      "#;
    let bytes = [&(overlapping.len() as u64).to_le_bytes()[..], overlapping, &[0; 8]].concat();
    assert!(matches!(load(&bytes), Err(LoadError::Damaged(_))));
}

#[test]
fn what_does_not_fit_the_network_is_named() {
    let (weight, bias) = (("torso.weight", Dtype::F32, &[2, 3][..]), ("torso.bias", Dtype::F32, &[3][..]));
    let message = |tensors: &[_]| load(&foreign(tensors)).unwrap_err().to_string();
    assert_eq!(
        message(&[weight]),
        "weight file lacks tensor `torso.bias` of shape [3]: it was saved from another network"
    );
    assert_eq!(
        message(&[weight, bias, ("z", Dtype::F32, &[1]), ("y", Dtype::F32, &[4, 1])]),
        "weight file holds tensor `y` of shape [4, 1], which this network does not have"
    );
    assert_eq!(
        message(&[("torso.weight", Dtype::F32, &[3, 2]), bias]),
        "tensor `torso.weight`: the network needs shape [2, 3], the weight file has [3, 2]"
    );
    assert_eq!(
        message(&[weight, ("torso.bias", Dtype::F16, &[3])]),
        "tensor `torso.bias` is stored as F16, but only F32 is read"
    );
}

proptest! {
    #[test]
    fn no_damage_makes_it_panic(at in 0_usize..400, byte in any::<u8>(), cut in 0_usize..400) {
        let mut bytes = file();
        let len = bytes.len();
        bytes[at % len] = byte;
        let _ = load(&bytes);
        bytes.truncate(cut);
        let _ = load(&bytes);
    }
}
