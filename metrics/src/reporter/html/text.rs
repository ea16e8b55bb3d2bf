//! Figures as people read them, and text as HTML wants it.

use std::fmt::Write;

/// `text` so that it stands for itself between tags and between quotes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(c),
            // Those that no page may hold, and those that turn the direction of what follows.
            c if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {
                escaped.push('\u{fffd}');
            }
            c if ('\u{fdd0}'..='\u{fdef}').contains(&c) || u32::from(c) & 0xfffe == 0xfffe => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// The first `n_chars` characters of `text`, with an ellipsis where some are left out.
pub(super) fn shortened(text: &str, n_chars: usize) -> String {
    match text.char_indices().nth(n_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A whole number with thousands separators: `1,863,040`.
pub(super) fn whole(number: impl Into<i128>) -> String {
    let number = number.into();
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "−" } else { "" });
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A figure in four digits or so: `0.4944`, `37.71`, `4,721`, `1.2e-7`.
pub(super) fn figure(value: f64) -> String {
    let size = value.abs();
    let text = match size {
        0.0 => "0".to_owned(),
        _ if !size.is_finite() => return "not finite".to_owned(),
        _ if !(1e-4..1e15).contains(&size) => return signed(format!("{value:.3e}")),
        _ if size >= 999.95 => return whole(value.round() as i128),
        _ => format!("{value:.*}", (3 - size.log10().floor() as i32).clamp(0, 7) as usize),
    };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    signed(text.to_owned())
}

/// A share from 0 to 1 in percent: `94.6 %`.
pub(super) fn percent(share: f64) -> String {
    match 100.0 * share {
        nothing if nothing < 0.05 && nothing > 0.0 => "&lt; 0.1 %".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}

/// A length of time in its two greatest units: `0.90 s`, `12 min 5 s`, `3 h 12 min`.
pub(super) fn duration(secs: f64) -> String {
    if !(0.0..1e15).contains(&secs) {
        return format!("{} s", figure(secs));
    }
    if secs < 59.95 {
        return if secs < 9.995 { format!("{secs:.2} s") } else { format!("{secs:.1} s") };
    }
    let secs = secs.round() as u64;
    let (mins, hours, days) = (secs / 60, secs / 3600, secs / 86_400);
    match (days, hours, mins) {
        (0, 0, mins) => format!("{mins} min {} s", secs % 60),
        (0, hours, mins) => format!("{hours} h {} min", mins % 60),
        (days, hours, _) => format!("{} d {} h", whole(days), hours % 24),
    }
}

/// `n` and the noun in the number that fits: `1 result`, `2,000 results`.
pub(super) fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", whole(n), if n == 1 { "" } else { "s" })
}

/// A section of the page with its heading.
pub(super) fn section(out: &mut String, heading: &str, body: impl FnOnce(&mut String)) {
    // Writing into a string cannot fail, here and in all of the report.
    let _ = write!(out, "<section>\n<h2>{}</h2>\n", escape(heading));
    body(out);
    out.push_str("</section>\n");
}

/// What stands where a picture would be, had it anything to show.
pub(super) fn nothing(out: &mut String, why: &str) {
    let _ = writeln!(out, "<p class=\"none\">{}</p>", escape(why));
}

fn signed(text: String) -> String {
    match text.strip_prefix('-') {
        Some(size) => format!("−{}", size.replace('-', "−")),
        None => text.replace('-', "−"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_exact_and_grouped_by_thousands() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (-1_234_567, "−1,234,567"),
            ((1 << 53) + 1, "9,007,199,254,740,993"),
            (i128::from(u64::MAX), "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(whole(number), text);
        }
    }

    #[test]
    fn figures_have_four_digits_at_any_size() {
        for (value, text) in [
            (0.0, "0"),
            (0.49444, "0.4944"),
            (37.7149, "37.71"),
            (-500.0, "−500"),
            (999.99, "1,000"),
            (4720.7, "4,721"),
            (0.00065, "0.00065"),
            (1.2e-7, "1.200e−7"),
            (1e300, "1.000e300"),
            (f64::NAN, "not finite"),
        ] {
            assert_eq!(figure(value), text);
        }
    }

    #[test]
    fn lengths_of_time_are_in_their_two_greatest_units() {
        for (secs, text) in [
            (0.9, "0.90 s"),
            (59.9, "59.9 s"),
            (59.96, "1 min 0 s"),
            (725.0, "12 min 5 s"),
            (11_520.0, "3 h 12 min"),
            (180_000.0, "2 d 2 h"),
            (f64::NAN, "not finite s"),
        ] {
            assert_eq!(duration(secs), text);
        }
    }

    #[test]
    fn escaped_text_holds_no_tags_no_quotes_and_no_forbidden_characters() {
        assert_eq!(escape("<b a=\"1\" c='2'>&"), "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;");
        assert_eq!(escape("a\0b\u{1b}[31m\u{202e}\u{ffff}ü\n"), "a\u{fffd}b\u{fffd}[31m\u{fffd}\u{fffd}ü\n");
        assert_eq!(shortened("äöü", 2), "äö…");
        assert_eq!(shortened("äöü", 3), "äöü");
    }
}
