//! A small reader of pages that are HTML and XML at once.

/// Panics unless every tag is closed in order, every attribute is quoted, named once, and every `&` begins an entity.
pub(super) fn check(page: &str) {
    let body = page.strip_prefix("<!DOCTYPE html>\n").expect("begins with its type");
    let mut open: Vec<&str> = Vec::new();
    let mut rest = body;
    while let Some(start) = rest.find('<') {
        check_text(&rest[..start]);
        let end = start + rest[start..].find('>').unwrap_or_else(|| panic!("tag without end: {:.80}", &rest[start..]));
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed before {rest:.80}");
            continue;
        }
        let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let name = tag.split(' ').next().unwrap_or_default();
        assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric()), "tag <{tag}>");
        check_attributes(tag[name.len()..].trim_start());
        if !is_empty {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
    assert_eq!(rest, "\n");
}

fn check_attributes(mut rest: &str) {
    let mut names = Vec::new();
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("attribute without value: {rest}"));
        let (value, after) = after.split_once('"').unwrap_or_else(|| panic!("value without end: {rest}"));
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'), "attribute {name:?}");
        assert!(!names.contains(&name), "{name} twice");
        assert!(!value.contains('<'));
        check_text(value);
        names.push(name);
        rest = after.trim_start();
    }
}

fn check_text(text: &str) {
    assert!(!text.contains(|c: char| c.is_control() && c != '\n' && c != '\t'), "control character in {text:?}");
    for after in text.split('&').skip(1) {
        let entity = after.split(';').next().unwrap_or_default();
        assert!(["amp", "lt", "gt", "quot", "#39"].contains(&entity), "&{after:.20}");
    }
}

#[test]
fn the_reader_sees_what_is_not_well_formed() {
    let page = |body: &str| format!("<!DOCTYPE html>\n<html>{body}</html>\n");
    check(&page("<p a=\"1\" b=\"&lt;\">x<br/></p>"));
    for bad in ["<p>", "</p>", "<p><b></p></b>", "<p a=1></p>", "<p a=\"1\" a=\"2\"></p>", "x & y", "\u{1}", "<p"] {
        assert!(std::panic::catch_unwind(|| check(&page(bad))).is_err(), "{bad}");
    }
}
