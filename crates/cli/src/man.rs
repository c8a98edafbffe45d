//! `twinlog man`: manual pages, made from the same definitions as `--help`.

use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::args::{self, Args};
use crate::output::{self, Failure};

pub(crate) fn man(args: &args::Man) -> Result<(), Failure> {
    let all = pages();
    if let Some(folder) = &args.dir {
        return write_all(folder, all);
    }
    let wanted = match &args.command {
        Some(command) => format!("twinlog-{command}"),
        None => "twinlog".to_owned(),
    };
    let Some(page) = all.iter().find(|page| title(page) == wanted) else {
        let command = args.command.as_deref().unwrap_or_default();
        let known = all.iter().filter_map(|page| title(page).strip_prefix("twinlog-"));
        return Err(Failure::usage(
            format!("there is no command `{command}`"),
            format!("the commands are {}", known.collect::<Vec<_>>().join(", ")),
        ));
    };
    let page = render(page.clone()).map_err(|error| Failure::stdout(&error))?;
    output::write(&page).map_err(|error| Failure::stdout(&error))
}

fn write_all(folder: &Path, pages: Vec<Command>) -> Result<(), Failure> {
    let failed = |what: &Path, error: &io::Error| {
        Failure::usage(format!("--dir: {}: {error}", what.display()), "name a folder to write into")
    };
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    for page in pages {
        let path = folder.join(format!("{}.1", title(&page)));
        let written = render(page).and_then(|page| std::fs::write(&path, page));
        written.map_err(|error| failed(&path, &error))?;
    }
    Ok(())
}

/// twinlog's own page and one for each command.
fn pages() -> Vec<Command> {
    let mut root = Args::command();
    root.build();
    let commands = root.get_subcommands().filter(|command| command.get_name() != "help");
    let commands: Vec<Command> =
        commands.map(|command| command.clone().version(env!("CARGO_PKG_VERSION"))).collect();
    [root.clone()].into_iter().chain(commands).collect()
}

/// What `man` finds a page by: `twinlog`, `twinlog-status`.
fn title(page: &Command) -> &str {
    page.get_display_name().unwrap_or_else(|| page.get_name())
}

fn render(command: Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    Ok(page)
}
