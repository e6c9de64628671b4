//! Where the test stack is: from the environment, else from the file that the stack wrote.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::OnceLock;

/// The workspace's root.
#[must_use]
pub fn workspace() -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    own.parent()
        .and_then(std::path::Path::parent)
        .expect("this crate lies two folders below the root")
        .to_owned()
}

/// An address of the test stack.
///
/// # Panics
/// When neither the environment nor `.local/test/env` has it.
#[must_use]
pub fn address(name: &str) -> String {
    static FILE: OnceLock<HashMap<String, String>> = OnceLock::new();
    // The main stack's file has some of the same names. Only the test stack's has this one, so where it is absent
    // nothing of the environment is believed.
    let sourced = std::env::var_os("TEST_DATABASE_URL").is_some();
    let given = std::env::var_os(name).filter(|_| sourced).and_then(|value| value.into_string().ok());
    given
        .or_else(|| FILE.get_or_init(read_file).get(name).cloned())
        .unwrap_or_else(|| panic!("{name} is missing: the test stack is not up, run `make test`"))
}

fn read_file() -> HashMap<String, String> {
    let text = std::fs::read_to_string(workspace().join(".local/test/env")).unwrap_or_default();
    parse(&text)
}

/// Lines `export NAME=value`, with the shell's simple quotes; a value may name an earlier one as `"$NAME"`.
fn parse(text: &str) -> HashMap<String, String> {
    let mut values = HashMap::<String, String>::new();
    for line in text.lines() {
        let line = line.trim().strip_prefix("export ").unwrap_or_else(|| line.trim());
        let Some((name, value)) = line.split_once('=').filter(|(name, _)| !name.starts_with('#')) else {
            continue;
        };
        let value = value.trim_matches(['\'', '"']).replace('\\', "");
        let value = match value.strip_prefix('$') {
            Some(other) => values.get(other).cloned().unwrap_or_default(),
            None => value,
        };
        values.insert(name.to_owned(), value);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stacks_file_is_read_as_the_shell_reads_it() {
        let values = parse("# A=1\nexport B=x\\=y\nC='q'\nexport D=\"$B\"\n\n");
        assert_eq!(values.len(), 3);
        assert_eq!((values["B"].as_str(), values["C"].as_str(), values["D"].as_str()), ("x=y", "q", "x=y"));
    }
}
