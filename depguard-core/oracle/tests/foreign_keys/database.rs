//! Tables with foreign keys. SQLite says which changes keep them.

use rusqlite::{Connection, params_from_iter};

use crate::schema::{Key, NAMESPACES, Object, Schema};

/// Time at which SQLite checks foreign keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    /// RESTRICT: at each statement.
    AtOnce,
    /// NO ACTION, deferred: at the end of the transaction.
    AtCommit,
}

/// Tables of a schema: one of each kind, with a column pair for a single reference, and one of each list.
pub(crate) struct Database<'s> {
    schema: &'s Schema,
    connection: Connection,
}

impl<'s> Database<'s> {
    pub(crate) fn new(schema: &'s Schema, check: Check) -> Self {
        let on_delete = match check {
            Check::AtOnce => "ON DELETE RESTRICT",
            Check::AtCommit => "ON DELETE NO ACTION DEFERRABLE INITIALLY DEFERRED",
        };
        let mut tables = "PRAGMA foreign_keys = ON;".to_owned();
        for (number, kind) in schema.kinds.iter().enumerate() {
            let (mut columns, mut keys) = (String::new(), String::new());
            for (field, reference) in kind.references.iter().enumerate() {
                let target = reference.target;
                if reference.is_list {
                    tables += &format!(
                        "CREATE TABLE t{number}_r{field} (ns TEXT, name TEXT, target_ns TEXT, target_name TEXT,
                         FOREIGN KEY (ns, name) REFERENCES t{number} (ns, name) ON DELETE CASCADE,
                         FOREIGN KEY (target_ns, target_name) REFERENCES t{target} (ns, name) {on_delete});"
                    );
                } else {
                    columns += &format!("r{field}_ns TEXT, r{field}_name TEXT, ");
                    keys += &format!(
                        ", FOREIGN KEY (r{field}_ns, r{field}_name) REFERENCES t{target} (ns, name) {on_delete}"
                    );
                }
            }
            tables += &format!(
                "CREATE TABLE t{number} (ns TEXT NOT NULL, name TEXT NOT NULL, {columns} PRIMARY KEY (ns, name){keys});"
            );
        }
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(&tables).unwrap();
        Self { schema, connection }
    }

    /// Inserts an object in one transaction. Returns true if the foreign keys allow that.
    pub(crate) fn insert(&self, object: &Object) -> bool {
        self.insert_all(std::slice::from_ref(object))
    }

    /// Inserts objects in one transaction. Returns true if the foreign keys allow that.
    pub(crate) fn insert_all(&self, objects: &[Object]) -> bool {
        self.transaction(|| {
            objects.iter().try_for_each(|object| {
                let kind = object.key.kind;
                self.execute(&format!("INSERT INTO t{kind} (ns, name) VALUES (?, ?)"), object.key, [])
            })?;
            objects.iter().try_for_each(|object| self.refer(object))
        })
    }

    /// Replaces the references of an object. Returns true if the foreign keys allow that.
    pub(crate) fn update(&self, object: &Object) -> bool {
        self.transaction(|| self.refer(object))
    }

    /// Deletes an object. Returns true if the foreign keys allow that.
    pub(crate) fn delete(&self, key: Key) -> bool {
        let kind = key.kind;
        self.transaction(|| self.execute(&format!("DELETE FROM t{kind} WHERE (ns, name) = (?, ?)"), key, []))
    }

    /// Deletes all objects of the first namespace in one transaction. Returns true if the foreign keys allow that.
    pub(crate) fn delete_namespace(&self) -> bool {
        let delete = |kind| self.connection.execute(&format!("DELETE FROM t{kind} WHERE ns = ?"), [NAMESPACES[0]]);
        self.transaction(|| (0..self.schema.kinds.len()).try_for_each(|kind| delete(kind).map(drop)))
    }

    fn refer(&self, object: &Object) -> rusqlite::Result<()> {
        let kind = object.key.kind;
        for (field, reference) in self.schema.kinds[kind].references.iter().enumerate() {
            let targets = self.schema.targets(object, field);
            if reference.is_list {
                let table = format!("t{kind}_r{field}");
                self.execute(&format!("DELETE FROM {table} WHERE (ns, name) = (?, ?)"), object.key, [])?;
                for target in targets {
                    let target = [Some(target.namespace), Some(target.name)];
                    self.execute(&format!("INSERT INTO {table} VALUES (?1, ?2, ?3, ?4)"), object.key, target)?;
                }
            } else {
                let target = targets.first().map_or([None, None], |it| [Some(it.namespace), Some(it.name)]);
                let set =
                    format!("UPDATE t{kind} SET r{field}_ns = ?3, r{field}_name = ?4 WHERE (ns, name) = (?1, ?2)");
                self.execute(&set, object.key, target)?;
            }
        }
        Ok(())
    }

    fn execute<const N: usize>(&self, sql: &str, key: Key, more: [Option<&str>; N]) -> rusqlite::Result<()> {
        let parameters = [Some(key.namespace), Some(key.name)].into_iter().chain(more);
        self.connection.execute(sql, params_from_iter(parameters)).map(drop)
    }

    /// Carries out a transaction. Returns false if a foreign key forbids it; any other error is a mistake of the test.
    fn transaction(&self, act: impl FnOnce() -> rusqlite::Result<()>) -> bool {
        self.connection.execute_batch("BEGIN").unwrap();
        match act().and_then(|()| self.connection.execute_batch("COMMIT")) {
            Ok(()) => true,
            Err(error) => {
                assert!(error.to_string().contains("FOREIGN KEY constraint failed"), "{error}");
                self.connection.execute_batch("ROLLBACK").unwrap();
                false
            }
        }
    }
}
