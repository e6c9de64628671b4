//! What the rules need to know about Rust text: where its tests begin, and which of its words are literals.

/// Whether a file holds tests only.
pub(crate) fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.contains("/benches/") || path.starts_with("crates/e2e/")
}

/// The part of a module before its unit tests, which stand last.
pub(crate) fn without_tests(text: &str) -> &str {
    text.split_once("\nmod tests {").map_or(text, |(before, _)| before)
}

/// The text of a line without its `//` comment; a `//` inside a literal is kept.
pub(crate) fn without_comment(line: &str) -> &str {
    let mut in_literal = false;
    let mut before = '\0';
    for (place, letter) in line.char_indices() {
        match letter {
            '"' if before != '\\' && before != '\'' => in_literal = !in_literal,
            '/' if before == '/' && !in_literal => {
                return line.get(..place.saturating_sub(1)).unwrap_or(line);
            }
            _ => {}
        }
        before = letter;
    }
    line
}

/// The plain string literals of a line.
pub(crate) fn literals(line: &str) -> impl Iterator<Item = &str> {
    without_comment(line).split('"').skip(1).step_by(2)
}

/// Lines with their numbers.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines())
}

/// Whether `word` stands in `text` as a whole word, and where it first does.
pub(crate) fn find_word(text: &str, word: &str) -> Option<usize> {
    text.match_indices(word).map(|(place, _)| place).find(|place| {
        let before = text.get(..*place).and_then(|text| text.chars().next_back());
        let after = text.get(place.saturating_add(word.len())..).and_then(|text| text.chars().next());
        ![before, after].into_iter().flatten().any(|letter| letter.is_alphanumeric() || letter == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_end_a_line_and_literals_do_not() {
        assert_eq!(without_comment(r#"a("x//y") // z"#), r#"a("x//y") "#);
        assert_eq!(literals(r#"A: &str = "uk_a"; // "uk_b""#).collect::<Vec<_>>(), ["uk_a"]);
    }

    #[test]
    fn a_word_is_not_a_part_of_a_word() {
        assert!(find_word("G10 and G1.", "G1").is_some_and(|place| place == 8));
        assert_eq!(find_word("G10", "G1"), None);
    }

    #[test]
    fn tests_stand_last() {
        assert_eq!(without_tests("fn a() {}\n#[cfg(test)]\nmod tests {\n}"), "fn a() {}\n#[cfg(test)]");
    }
}
