//! Bounds in a file. JSON has no infinity, which is written as "inf".

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Bound {
    Finite(f32),
    Infinite(Infinity),
}

#[derive(Serialize, Deserialize)]
enum Infinity {
    #[serde(rename = "inf")]
    Above,
    #[serde(rename = "-inf")]
    Below,
}

pub(super) fn serialize<S: Serializer>(bounds: &[f32], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(bounds.iter().map(|&bound| match bound {
        f32::INFINITY => Bound::Infinite(Infinity::Above),
        f32::NEG_INFINITY => Bound::Infinite(Infinity::Below),
        finite => Bound::Finite(finite),
    }))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f32>, D::Error> {
    let bounds = Vec::<Bound>::deserialize(deserializer)?;
    let number = |bound| match bound {
        Bound::Finite(finite) => finite,
        Bound::Infinite(Infinity::Above) => f32::INFINITY,
        Bound::Infinite(Infinity::Below) => f32::NEG_INFINITY,
    };
    Ok(bounds.into_iter().map(number).collect())
}
