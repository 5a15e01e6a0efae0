//! Files beside the API server to which they will be applied.

use crate::cluster::api_server::ApiServer;
use crate::cluster::files::FileArgs;
use crate::cluster::manifests::Surroundings;
use crate::cluster::object_record::Role;
use crate::cluster::rules::Rules;
use crate::cluster::source::Source;
use crate::io::exit::Failure;
use crate::io::terminal::Terminal;
use crate::options::Global;

/// Objects of files, the rules about them, and the API server that has the other objects.
pub(crate) struct FilesForServer {
    pub(crate) files: Source,
    /// Rules of the files; the API server's if the files have none.
    pub(crate) rules: Rules,
    pub(crate) server: ApiServer,
}

impl FilesForServer {
    /// Reads the files as the API server would: by the kinds that it serves, and with objects that name no namespace in
    /// the one of `--namespace` or of the kubeconfig's context.
    pub(crate) async fn open(global: &Global, args: &FileArgs, terminal: &mut Terminal) -> Result<Self, Failure> {
        if args.is_empty() {
            return Err(Failure::new(
                "--live says where else to look for targets of objects in files, and no file is named",
            )
            .hint("name files with -f; or leave out --live to check the objects of the API server"));
        }
        let files = args.manifests(terminal)?;
        let server = ApiServer::open(global).await?;
        let namespace = match &global.namespace {
            Some(namespace) => namespace.clone(),
            None => server.context_namespace()?,
        };
        let has_rules = files.records.iter().any(|record| matches!(record.object_type.role, Role::Rule));
        let rules = if has_rules { None } else { Some(server.rules().await?) };
        if rules.as_ref().is_some_and(|rules| rules.objects.is_empty() && rules.unread.is_empty()) {
            return Err(Failure::new("neither the files nor the API server have a DependencyRule")
                .hint("also name the files with rules with -f; -R reads subfolders"));
        }
        let surroundings = Surroundings {
            kinds: server.kinds().await?.clone(),
            rules: rules.iter().flat_map(|rules| rules.objects.clone()).collect(),
        };
        let files = Source::from_files(files, &namespace, surroundings, terminal)?;
        let mut own = files.rules().await?;
        if let Some(mut rules) = rules {
            rules.unread.append(&mut own.unread);
            own = rules;
        }
        Ok(Self { files, rules: own, server })
    }
}
