use super::error::EnvError;

/// A picture of an environment, for a video: what [`Env::render`](crate::Env::render) draws.
///
/// ```
/// use pronk_rollout::Frame;
///
/// // A red pixel and a blue one beside it.
/// let frame = Frame::new(2, 1, vec![255, 0, 0, 0, 0, 255])?.with_fps(10);
/// assert_eq!((frame.width(), frame.height(), frame.fps()), (2, 1, 10));
///
/// let error = Frame::new(2, 2, vec![0; 6]).expect_err("six bytes short");
/// assert_eq!(error.to_string(), "a frame of 2 × 2 pixels has 12 bytes of RGB, got 6");
/// # Ok::<(), pronk_rollout::EnvError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    width: u32,
    height: u32,
    rgb: Vec<u8>,
    fps: u16,
}

impl Frame {
    /// The rate of frames that do not say theirs.
    pub const DEFAULT_FPS: u16 = 30;

    /// A frame from its pixels, `[height, width, 3]`: row by row from the top, each pixel as red, green and
    /// blue. An error for another number of bytes, and for a frame without pixels.
    pub fn new(width: u32, height: u32, rgb: Vec<u8>) -> Result<Self, EnvError> {
        let due = (u64::from(width) * u64::from(height)).saturating_mul(3);
        if due == 0 {
            return Err(EnvError::new(format!("a frame has at least one pixel, got {width} × {height}")));
        }
        if rgb.len() as u64 != due {
            let got = rgb.len();
            return Err(EnvError::new(format!(
                "a frame of {width} × {height} pixels has {due} bytes of RGB, got {got}"
            )));
        }
        Ok(Self { width, height, rgb, fps: Self::DEFAULT_FPS })
    }

    /// Sets how many steps a second a video shows; 0 counts as 1.
    pub fn with_fps(self, fps: u16) -> Self {
        Self { fps: fps.max(1), ..self }
    }

    /// Pixels in a row.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// `[height, width, 3]`
    pub fn rgb(&self) -> &[u8] {
        &self.rgb
    }

    /// How many steps a second a video shows.
    pub fn fps(&self) -> u16 {
        self.fps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_more_bytes_than_can_be_counted_is_refused() {
        let error = Frame::new(u32::MAX, u32::MAX, vec![0; 3]).unwrap_err();
        assert!(error.to_string().contains("got 3"), "{error}");
    }
}
