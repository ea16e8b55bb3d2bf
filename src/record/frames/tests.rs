use super::*;

fn written(values: &[Vec<u32>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut frames = FrameWriter::new(&mut bytes);
    values.iter().for_each(|value| frames.write(value).unwrap());
    bytes
}

fn read(bytes: &[u8]) -> Result<Vec<Vec<u32>>, FrameError> {
    let mut frames = FrameReader::new(bytes);
    std::iter::from_fn(|| frames.read().transpose()).collect()
}

#[test]
fn frames_come_back_and_a_torn_end_is_cut_off() {
    let values = [vec![1, 2, 300], vec![], vec![7; 1000]];
    let bytes = written(&values);
    for len in 0..bytes.len() {
        let whole = read(&bytes[..len]).unwrap();
        assert!(whole.len() < 3 && whole == values[..whole.len()], "{len} of {} bytes", bytes.len());
    }
    assert_eq!(read(&bytes).unwrap(), values);
}

#[test]
fn every_flipped_bit_is_named_with_its_place() {
    let first = written(&[vec![1, 2, 300]]).len();
    let bytes = written(&[vec![1, 2, 300], vec![4, 5, 6]]);
    for bit in 0..8 * bytes.len() {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let place = if bit / 8 < first { 0 } else { first as u64 };
        match read(&bytes) {
            Err(FrameError::Damaged { at, .. }) => assert_eq!(at, place, "bit {bit}"),
            other => panic!("bit {bit}: {other:?}"),
        }
    }
}
