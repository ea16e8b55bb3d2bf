//! One colour for each name, told apart by any reader.
//!
//! Seven colours that colour-blind readers tell apart, after Okabe and Ito, and two greys; where they do not suffice, a
//! texture is laid over them. Work is coloured and waiting is grey, as far as the usual names tell.

use std::collections::BTreeMap;
use std::fmt::Write;

/// A colour, and a texture over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Paint {
    /// Class `c0` … `c8` of the style sheet; 7 and 8 are the greys.
    pub(super) colour: u8,
    /// Pattern `t1` … `t3` of the page; 0 is none.
    pub(super) texture: u8,
}

pub(super) const BLUE: u8 = 0;
pub(super) const ORANGE: u8 = 1;
const GREEN: u8 = 2;
const PINK: u8 = 3;
pub(super) const SKY: u8 = 4;
pub(super) const VERMILLION: u8 = 5;
const YELLOW: u8 = 6;
const GREY: u8 = 7;
const PALE: u8 = 8;
const N_COLOURS: u8 = 7;
pub(super) const N_TEXTURES: u8 = 4;

/// The paint of states that most runs have: the same in every report, so that two can be laid side by side.
const USUAL: [(&str, u8, u8); 19] = [
    ("learning", BLUE, 0),
    ("inferring", ORANGE, 0),
    ("stepping", GREEN, 0),
    ("reporting", PINK, 0),
    ("publishing", SKY, 0),
    ("training", BLUE, 1),
    ("loading", YELLOW, 0),
    ("starting", YELLOW, 1),
    ("restarting", VERMILLION, 0),
    ("replacing", VERMILLION, 1),
    ("away", PINK, 1),
    ("blocked", GREY, 0),
    ("starved", GREY, 1),
    ("listening", PALE, 0),
    ("idle", PALE, 1),
    ("waiting", PALE, 2),
    ("watching", PALE, 3),
    ("waiting_for_stack", GREY, 2),
    ("waiting_for_data", GREY, 3),
];

/// A paint for each of `names`. Those that are not usual get what is free, in their order; when nothing is free any more,
/// they begin anew.
pub(super) fn paints<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, Paint> {
    let names: Vec<&str> = names.collect();
    let usual = |name: &str| {
        let (_, colour, texture) = *USUAL.iter().find(|(usual, ..)| *usual == name)?;
        Some(Paint { colour, texture })
    };
    let mut paints: BTreeMap<&str, Paint> = names.iter().filter_map(|name| Some((*name, usual(name)?))).collect();
    let all = (0..N_TEXTURES).flat_map(|texture| (0..N_COLOURS).map(move |colour| Paint { colour, texture }));
    let taken: Vec<Paint> = paints.values().copied().collect();
    let mut free = all.filter(|paint| !taken.contains(paint)).collect::<Vec<_>>().into_iter().cycle();
    for name in names {
        if !paints.contains_key(name) {
            paints.extend(free.next().map(|paint| (name, paint)));
        }
    }
    paints
}

/// A painted rectangle of full height from `left` to `left + width`, in percent, with a text that shows on pointing.
pub(super) fn rect(out: &mut String, paint: Paint, left: f64, width: f64, title: &str) {
    let Paint { colour, texture } = paint;
    let place = format!("x=\"{left:.3}%\" width=\"{width:.3}%\" height=\"100%\"");
    let _ = write!(out, "<g>");
    if !title.is_empty() {
        let _ = write!(out, "<title>{title}</title>");
    }
    let _ = write!(out, "<rect class=\"part c{colour}\" {place}/>");
    if texture > 0 {
        let _ = write!(out, "<rect fill=\"url(#t{texture})\" {place}/>");
    }
    out.push_str("</g>");
}

/// Writes `label` into a rectangle of that place when it fits even on a phone.
pub(super) fn rect_label(out: &mut String, paint: Paint, left: f64, width: f64, label: &str) {
    const PHONE_PX: f64 = 300.0;
    const CHAR_PX: f64 = 6.6;
    if paint.texture == 0 && width / 100.0 * PHONE_PX > label.chars().count() as f64 * CHAR_PX + 10.0 {
        let middle = left + 0.5 * width;
        let label = super::text::escape(label);
        let _ =
            write!(out, "<text class=\"on{}\" x=\"{middle:.3}%\" y=\"50%\" dy=\"0.34em\">{label}</text>", paint.colour);
    }
}

/// Names with their paint; the names are escaped here.
pub(super) fn legend<'a>(out: &mut String, entries: impl Iterator<Item = (&'a str, Paint)>) {
    out.push_str("<ul class=\"legend\">");
    for (name, paint) in entries {
        out.push_str("<li><svg class=\"chip\" aria-hidden=\"true\">");
        rect(out, paint, 0.0, 100.0, "");
        let _ = write!(out, "</svg>{}</li>", super::text::escape(name));
    }
    out.push_str("</ul>\n");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_names_have_the_same_paint_while_there_are_enough() {
        let mut names: Vec<String> = USUAL.iter().map(|(name, ..)| (*name).to_owned()).collect();
        names.extend((0..17).map(|i| format!("own-{i}")));
        let paints = paints(names.iter().map(String::as_str));
        assert_eq!(paints.len(), names.len());
        assert_eq!(paints.values().collect::<BTreeSet<_>>().len(), names.len());
    }

    #[test]
    fn usual_states_have_their_paint_whoever_else_is_there() {
        let alone = paints(["learning"].into_iter());
        let many = paints(["own", "other", "learning", "own"].into_iter());
        assert_eq!(alone["learning"], many["learning"]);
        assert_eq!(many.len(), 3);
        let crowd: Vec<String> = (0..200).map(|i| i.to_string()).collect();
        assert_eq!(paints(crowd.iter().map(String::as_str)).len(), 200);
    }
}
