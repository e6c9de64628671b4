//! Reads migrations as far as names go: statements, tables, and how each constraint, index and trigger is called.

/// A piece of SQL text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// A name or keyword.
    Word,
    /// A single sign, such as `(`.
    Sign,
    /// The inside of `'…'`.
    Text,
    /// The inside of `$$…$$`: a function's body.
    Body,
}

#[derive(Debug, Clone)]
struct Token {
    kind: Kind,
    text: String,
    line: usize,
}

impl Token {
    fn is(&self, word: &str) -> bool {
        self.kind != Kind::Text && self.text.eq_ignore_ascii_case(word)
    }
}

/// What a name is the name of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    PrimaryKey,
    Unique,
    ForeignKey,
    Check,
    Index,
    UniqueIndex,
    Trigger,
}

/// A constraint, index or trigger; `name` is empty where none was given.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) name: String,
    pub(super) named: Named,
    pub(super) line: usize,
}

/// What one migration says.
#[derive(Debug, Default)]
pub(super) struct Migration {
    pub(super) names: Vec<Name>,
    /// Tables without a primary key.
    pub(super) keyless: Vec<(String, usize)>,
    /// Names that functions raise as `CONSTRAINT = '…'`.
    pub(super) raised: Vec<(String, usize)>,
}

pub(super) fn read(text: &str) -> Migration {
    let mut migration = Migration::default();
    let tokens = tokens(text, 1);
    for statement in tokens.split(|token| token.is(";")) {
        read_statement(statement, &mut migration);
    }
    migration
}

fn read_statement(statement: &[Token], migration: &mut Migration) {
    let Some(first) = statement.first() else { return };
    let word_after = |word: &str| name_after(statement, word);
    if first.is("ALTER") {
        read_items(statement, migration);
    } else if first.is("CREATE") {
        // The first word that says what is made; later ones belong to the statement's inside.
        let made = statement
            .iter()
            .find(|token| ["TABLE", "INDEX", "TRIGGER", "FUNCTION"].iter().any(|word| token.is(word)));
        let Some(made) = made else { return };
        if made.is("TABLE") {
            read_table(statement, word_after("TABLE"), migration);
        } else if made.is("INDEX") {
            let unique = statement.get(1).is_some_and(|token| token.is("UNIQUE"));
            let named = if unique { Named::UniqueIndex } else { Named::Index };
            migration.names.push(Name { name: word_after("INDEX"), named, line: first.line });
        } else if made.is("TRIGGER") {
            migration.names.push(Name {
                name: word_after("TRIGGER"),
                named: Named::Trigger,
                line: first.line,
            });
        } else {
            statement
                .iter()
                .filter(|token| token.kind == Kind::Body)
                .for_each(|body| read_body(body, migration));
        }
    }
}

/// The name behind a word, past `CONCURRENTLY` and `IF NOT EXISTS`; empty where an index has none.
fn name_after(statement: &[Token], word: &str) -> String {
    statement
        .iter()
        .skip_while(|token| !token.is(word))
        .skip(1)
        .find(|token| !["CONCURRENTLY", "IF", "NOT", "EXISTS", "ONLY"].iter().any(|word| token.is(word)))
        .filter(|token| token.kind == Kind::Word && !token.is("ON"))
        .map(|token| token.text.clone())
        .unwrap_or_default()
}

fn read_table(statement: &[Token], name: String, migration: &mut Migration) {
    let before = migration.names.len();
    read_items(statement, migration);
    let line = statement.first().map_or(1, |token| token.line);
    let keyed = migration.names.iter().skip(before).any(|name| name.named == Named::PrimaryKey);
    // A partition has the key of its table.
    let has_own_key = !statement.iter().any(|token| token.is("PARTITION"));
    if !keyed && has_own_key {
        migration.keyless.push((name, line));
    }
}

/// Every constraint among a statement's columns and clauses, with the name that stands before it.
fn read_items(statement: &[Token], migration: &mut Migration) {
    let mut in_foreign_key = false;
    for (place, token) in statement.iter().enumerate() {
        let at = |back: usize| place.checked_sub(back).and_then(|place| statement.get(place));
        let next = |word: &str| {
            place.checked_add(1).and_then(|place| statement.get(place)).is_some_and(|t| t.is(word))
        };
        let named = if token.is("PRIMARY") && next("KEY") {
            Named::PrimaryKey
        } else if token.is("UNIQUE") {
            Named::Unique
        } else if token.is("CHECK") && next("(") {
            Named::Check
        } else if token.is("FOREIGN") && next("KEY") {
            in_foreign_key = true;
            Named::ForeignKey
        } else if token.is("REFERENCES") && !std::mem::take(&mut in_foreign_key) {
            Named::ForeignKey
        } else {
            continue;
        };
        let name = at(1).filter(|_| at(2).is_some_and(|token| token.is("CONSTRAINT")));
        migration.names.push(Name {
            name: name.map(|token| token.text.clone()).unwrap_or_default(),
            named,
            line: token.line,
        });
    }
}

fn read_body(body: &Token, migration: &mut Migration) {
    let tokens = tokens(&body.text, body.line);
    for window in tokens.windows(3) {
        if let [word, sign, name] = window
            && word.is("CONSTRAINT")
            && sign.is("=")
            && name.kind == Kind::Text
        {
            migration.raised.push((name.text.clone(), name.line));
        }
    }
}

fn tokens(text: &str, first_line: usize) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let mut line = first_line;
    while let Some(letter) = rest.chars().next() {
        let (token, taken) = if rest.starts_with("--") {
            (None, rest.find('\n').unwrap_or(rest.len()))
        } else if let Some(inside) = rest.strip_prefix("$$") {
            let inside = inside.split("$$").next().unwrap_or_default();
            (Some((Kind::Body, inside)), inside.len().saturating_add(4))
        } else if let Some(inside) = rest.strip_prefix('\'') {
            let inside = inside.split('\'').next().unwrap_or_default();
            (Some((Kind::Text, inside)), inside.len().saturating_add(2))
        } else if letter.is_alphanumeric() || letter == '_' {
            let end = rest.find(|l: char| !l.is_alphanumeric() && l != '_' && l != '.').unwrap_or(rest.len());
            let word = rest.get(..end).unwrap_or(rest);
            (Some((Kind::Word, word)), end)
        } else if letter.is_whitespace() {
            (None, letter.len_utf8())
        } else {
            let end = letter.len_utf8();
            (Some((Kind::Sign, rest.get(..end).unwrap_or(rest))), end)
        };
        if let Some((kind, text)) = token {
            tokens.push(Token { kind, text: text.to_owned(), line });
        }
        let (passed, left) = rest.split_at(taken.min(rest.len()));
        line = line.saturating_add(passed.matches('\n').count());
        rest = left;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_name_is_read() {
        let migration = read(
            "-- CONSTRAINT pk_no PRIMARY KEY\nCREATE TABLE a (\n id INT,\n b INT REFERENCES b (id) CHECK (b > 0),\n\
             CONSTRAINT pk_a PRIMARY KEY (id), CONSTRAINT fk_a FOREIGN KEY (b) REFERENCES b (id));\n\
             CREATE UNIQUE INDEX IF NOT EXISTS uk_a ON a (b) WHERE c IN ('CHECK (');\n\
             CREATE INDEX ON a (b);\n\
             CREATE FUNCTION f() RETURNS trigger AS $$\nBEGIN RAISE 'x; CHECK (' USING CONSTRAINT = 'tr_a'; END $$;\n\
             CREATE TRIGGER tr_a AFTER INSERT ON a;\nCREATE TABLE c (id INT);\nALTER TABLE a ADD UNIQUE (b);",
        );
        let names: Vec<_> =
            migration.names.iter().map(|name| (name.name.as_str(), name.named, name.line)).collect();
        assert_eq!(
            names,
            [
                ("", Named::ForeignKey, 4),
                ("", Named::Check, 4),
                ("pk_a", Named::PrimaryKey, 5),
                ("fk_a", Named::ForeignKey, 5),
                ("uk_a", Named::UniqueIndex, 6),
                ("", Named::Index, 7),
                ("tr_a", Named::Trigger, 10),
                ("", Named::Unique, 12),
            ]
        );
        assert_eq!(migration.keyless, [("c".to_owned(), 11)]);
        assert_eq!(migration.raised, [("tr_a".to_owned(), 9)]);
    }
}
