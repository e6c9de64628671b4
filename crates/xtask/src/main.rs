#![doc = include_str!("../README.md")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program of the terminal speaks there")]

mod docs;
mod guards;
mod prepare;
mod proto;
mod rust;
mod tidy;
mod tree;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// Chores of the Oncepay workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Check the rules that the compiler does not.
    Tidy,
    /// Write the documents that are made from code.
    Docs,
    /// Take each guard away in turn: the test that is there for it must then fail.
    Guards {
        /// Only those with this text in their name, file or test.
        #[arg(default_value = "")]
        filter: String,
    },
    /// Describe the checked queries anew, so that a build needs no database.
    SqlxPrepare {
        /// Compare with what is there instead of writing it.
        #[arg(long)]
        check: bool,
        /// A PostgreSQL whose role may create databases, with the services' roles in it.
        #[arg(long, env = "TEST_DATABASE_URL", hide_env_values = true)]
        database_url: String,
    },
}

fn main() -> ExitCode {
    run(Arguments::parse().chore).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(chore: Chore) -> anyhow::Result<ExitCode> {
    let workspace = Workspace::read()?;
    match chore {
        Chore::Tidy => Ok(tell(&tidy::findings(&workspace), "untidy", "tidy")),
        Chore::Docs => {
            for path in docs::write(&workspace)? {
                println!("written: {path}");
            }
            Ok(ExitCode::SUCCESS)
        }
        Chore::Guards { filter } => {
            let bad = guards::run(&workspace, &filter, |line| println!("{line}"))?;
            Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Chore::SqlxPrepare { check, database_url } => {
            let differences = prepare::run(&workspace, &database_url, check)?;
            if check {
                return Ok(tell(&differences, "query data to renew with `make sqlx-prepare`", "up to date"));
            }
            for difference in differences {
                println!("{difference}");
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Prints what was found, one line each, then the sum.
fn tell<T: std::fmt::Display>(found: &[T], bad: &str, good: &str) -> ExitCode {
    for finding in found {
        println!("{finding}");
    }
    if found.is_empty() {
        println!("{good}");
        return ExitCode::SUCCESS;
    }
    eprintln!("{} × {bad}", found.len());
    ExitCode::FAILURE
}
