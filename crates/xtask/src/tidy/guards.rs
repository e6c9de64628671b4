//! The list of `cargo xtask guards` is true: each text stands once in its file, each test exists. Cheap, so that a change that
//! moves a guard moves its line in the list too.

use crate::guards::{self, Guard};
use crate::tidy::Finding;
use crate::workspace::Workspace;

const RULE: &str = "guards";

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let Some(text) = workspace.tree.text(guards::PATH) else {
        return vec![Finding::new(RULE, guards::PATH, 1, "missing: list what each test guards")];
    };
    let guards = match guards::list(text) {
        Ok(guards) => guards,
        Err(error) => return vec![Finding::new(RULE, guards::PATH, 1, error.message())],
    };
    // The nth guard stands behind the nth heading.
    let lines = (1..).zip(text.lines()).filter(|(_, text)| *text == "[[guard]]").map(|(line, _)| line);
    lines
        .zip(&guards)
        .flat_map(|(line, guard)| {
            faults(workspace, guard)
                .into_iter()
                .map(move |fault| Finding::new(RULE, guards::PATH, line, format!("{}: {fault}", guard.name)))
        })
        .collect()
}

fn faults(workspace: &Workspace, guard: &Guard) -> Vec<String> {
    let mut faults = Vec::new();
    match workspace.tree.text(&guard.file).map(|text| text.matches(&guard.find).count()) {
        None => faults.push(format!("there is no {}", guard.file)),
        Some(1) => {}
        Some(times) => {
            faults.push(format!("`find` stands {times} times in {}, and must stand once", guard.file))
        }
    }
    if guard.find == guard.replace {
        faults.push("`replace` takes nothing away".to_owned());
    }
    let mut words = guard.test.split_whitespace().skip_while(|word| *word != "-p").skip(1);
    let tested = words.next().and_then(|name| workspace.crates.iter().find(|one| one.name == name));
    let Some(tested) = tested else {
        faults.push("`test` names no crate of the workspace with -p".to_owned());
        return faults;
    };
    let name = guard.fails.rsplit("::").next().unwrap_or(&guard.fails);
    let function = format!("fn {name}(");
    let folder = format!("{}/", tested.dir);
    if !workspace.tree.below(&folder).any(|(path, text)| path.ends_with(".rs") && text.contains(&function)) {
        faults.push(format!("there is no {function}) in {}", tested.dir));
    }
    for program in &guard.programs {
        if !workspace.crates.iter().any(|one| one.name == *program) {
            faults.push(format!("there is no crate {program}"));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::{told, workspace};
    use crate::workspace::Crate;

    use super::*;

    fn line(find: &str, replace: &str, test: &str, fails: &str) -> String {
        format!(
            "[[guard]]\nname = \"a\"\nfile = \"crates/a/src/lib.rs\"\nfind = \"{find}\"\nreplace = \"{replace}\"\n\
             test = \"{test}\"\nfails = \"{fails}\"\n"
        )
    }

    #[test]
    fn a_list_that_has_gone_stale_is_found() {
        let list = [
            line("x > 0", "true", "-p a --lib", "tests::it_holds"),
            line("gone", "true", "-p a --lib", "tests::it_holds"),
            line("x", "y", "-p a --lib", "tests::it_is_gone"),
            line("x > 0", "x > 0", "-p b", "tests::it_holds"),
        ];
        let files = [
            (guards::PATH, list.concat()),
            ("crates/a/src/lib.rs", "if x > 0 { x }\nfn it_holds() {}".to_owned()),
        ];
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        assert_eq!(
            told(check(&workspace(&files, vec![Crate::sample("a", &[], &[])]))),
            [
                "crates/xtask/guards.toml:8: guards: a: `find` stands 0 times in crates/a/src/lib.rs, and must stand once",
                "crates/xtask/guards.toml:15: guards: a: `find` stands 2 times in crates/a/src/lib.rs, and must stand once",
                "crates/xtask/guards.toml:15: guards: a: there is no fn it_is_gone() in crates/a",
                "crates/xtask/guards.toml:22: guards: a: `replace` takes nothing away",
                "crates/xtask/guards.toml:22: guards: a: `test` names no crate of the workspace with -p",
            ]
        );
    }

    #[test]
    fn without_a_list_there_is_one_finding() {
        assert_eq!(check(&workspace(&[], vec![])).len(), 1);
        assert_eq!(check(&workspace(&[(guards::PATH, "[[guard]]\nname = 1")], vec![])).len(), 1);
    }
}
