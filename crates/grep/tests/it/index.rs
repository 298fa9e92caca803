//! `faultless index`: databases are created, shown, filtered and updated.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

/// A tree and a home of its own.
pub(crate) struct Sandbox {
    _folder: tempfile::TempDir,
    pub(crate) tree: std::path::PathBuf,
    pub(crate) home: std::path::PathBuf,
}

impl Sandbox {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sandbox =
            Self { tree: folder.path().join("tree"), home: folder.path().join("home"), _folder: folder };
        fs::create_dir_all(&sandbox.home).unwrap();
        files.iter().for_each(|(path, text)| sandbox.write(path, text));
        sandbox
    }

    /// Writes a file with an older time: a fresh one counts as changed for ever.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.tree.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let time = SystemTime::now() - Duration::from_secs(10);
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = crate::either(args);
        command.current_dir(&self.tree);
        command.env("HOME", &self.home).env_remove("XDG_CONFIG_HOME").env_remove("XDG_DATA_HOME");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// The output of a command that must succeed.
    pub(crate) fn out(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The message of a command that must fail.
    fn failure(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stdout));
        let said = text(&output.stderr);
        assert_eq!(said.lines().count(), 1, "one line: {said}");
        said
    }

    fn with_input(&self, args: &[&str], input: &str) -> Output {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const FILES: [(&str, &str); 4] = [
    ("kernel/sched/core.c", "int schedule(void)\n"),
    ("kernel/fork.c", "int fork(void)\n"),
    ("fs/Makefile", "obj-y\n"),
    ("data.bin", "int \0"),
];

#[test]
fn more_threads_than_are_of_use_do_no_harm() {
    let sandbox = Sandbox::new(&[("a", "foo\n")]);
    sandbox.out(&["init", "-j100000"]);
    assert_eq!(sandbox.out(&["-j100000", "foo"]), "a:foo\n");
}

#[test]
fn init_says_what_was_left_out_and_names_it() {
    let sandbox = Sandbox::new(&FILES);
    sandbox.write(".hidden", "int x\n");
    sandbox.write("out.o", "int o\n");
    sandbox.write(".ignore", "*.o\n");
    std::os::unix::fs::symlink("data.bin", sandbox.tree.join("link")).unwrap();
    let said = text(&sandbox.run(&["init"]).stderr);
    assert!(said.contains("4 files read, 0 removed, 4 in the database"), "{said}");
    assert!(said.contains("left out: 2 hidden, 1 ignored, 1 binary, 1 link;"), "{said}");
    let listed = sandbox.out(&["init", "--list-skipped"]);
    let expected =
        "hidden     .hidden\nhidden     .ignore\nbinary     data.bin\nlink       link\nignored    out.o\n";
    assert_eq!(listed, expected);
    assert_eq!(sandbox.out(&["info", "--list-skipped"]), expected);
    let said = text(&sandbox.run(&["init", "--hidden", "-g", "!*.bin"]).stderr);
    assert!(said.contains("5 files read") && said.contains("left out: 2 ignored, 1 link;"), "{said}");
    assert_eq!(sandbox.out(&["files"]).lines().count(), 5);
}

#[test]
fn an_update_tells_what_it_did_and_keeps_the_rules() {
    let sandbox = Sandbox::new(&FILES);
    sandbox.run(&["init", "--hidden"]);
    sandbox.write(".new", "int n\n");
    fs::remove_file(sandbox.tree.join("fs/Makefile")).unwrap();
    let said = text(&sandbox.run(&["update"]).stderr);
    assert!(said.starts_with("1 file read, 1 removed, 4 in the database;"), "{said}");
    assert_eq!(sandbox.out(&["files"]), ".new\nkernel/fork.c\nkernel/sched/core.c\n");
    sandbox.run(&["build"]);
    assert!(sandbox.out(&["files"]).contains(".new"), "build keeps the rules");
}

#[test]
fn info_is_text_or_json() {
    let sandbox = Sandbox::new(&FILES);
    sandbox.run(&["init"]);
    let info = sandbox.out(&["info"]);
    assert!(info.contains("files     3, ") && info.contains("left out  1 binary"), "{info}");
    let json: serde_json::Value = serde_json::from_str(&sandbox.out(&["info", "--json"])).unwrap();
    assert_eq!((json["files"].as_u64(), json["skipped"]["binary"].as_u64()), (Some(3), Some(1)));
    assert!(json["disk_bytes"].as_u64() > json["index_bytes"].as_u64());
}

#[test]
fn files_are_found_by_path_name_words_and_letters() {
    let sandbox = Sandbox::new(&FILES);
    sandbox.run(&["init"]);
    assert_eq!(sandbox.out(&["files", "sched/.*c$"]), "kernel/sched/core.c\n");
    assert_eq!(sandbox.out(&["files", "--by", "name", "^f"]), "kernel/fork.c\n");
    assert_eq!(sandbox.out(&["files", "--by", "words", "make", "-0"]), "fs/Makefile\0");
    assert_eq!(sandbox.out(&["files", "--by", "fuzzy", "krncor"]), "kernel/sched/core.c\n");
    assert_eq!(sandbox.out(&["files", "--limit", "1"]).lines().count(), 1);
    assert_eq!(sandbox.out(&["files", "fork", "--color", "always"]), "kernel/\x1b[1m\x1b[31mfork\x1b[0m.c\n");
    assert_eq!(sandbox.run(&["files", "nothing"]).status.code(), Some(1));
    assert_eq!(sandbox.run(&["files", "("]).status.code(), Some(2));
    let below = sandbox.command(&["files"]).current_dir(sandbox.tree.join("kernel")).output().unwrap();
    assert_eq!(text(&below.stdout), "fork.c\nsched/core.c\n");
}

#[test]
fn files_that_are_gone_are_not_shown_and_new_ones_are_when_asked() {
    let sandbox = Sandbox::new(&FILES);
    sandbox.run(&["init"]);
    sandbox.write("kernel/new.c", "int new(void)\n");
    fs::remove_file(sandbox.tree.join("kernel/fork.c")).unwrap();
    let output = sandbox.run(&["files", "kernel"]);
    assert_eq!(text(&output.stdout), "kernel/sched/core.c\n");
    let said = text(&output.stderr);
    assert!(said.starts_with("faultless: 1 file of this result is gone and was left out; the"), "{said}");
    assert!(said.contains("--fresh") && said.lines().count() == 1, "{said}");
    for by in ["path", "fuzzy"] {
        assert_eq!(
            sandbox.out(&["files", "--by", by, "kernel", "--limit", "1"]),
            "kernel/sched/core.c\n",
            "{by}"
        );
    }
    let output = sandbox.run(&["files", "--fresh", "kernel"]);
    assert_eq!(
        (text(&output.stdout), text(&output.stderr)),
        ("kernel/new.c\nkernel/sched/core.c\n".into(), "".into())
    );
}

#[test]
fn lines_of_standard_input_are_filtered() {
    let sandbox = Sandbox::new(&FILES);
    let lines = "a/xyz\nb/abc\nabc/d\n";
    assert_eq!(text(&sandbox.with_input(&["filter", "abc"], lines).stdout), "b/abc\nabc/d\n");
    assert_eq!(text(&sandbox.with_input(&["filter", "--by", "name", "abc"], lines).stdout), "b/abc\n");
    assert_eq!(sandbox.with_input(&["filter", "none"], lines).status.code(), Some(1));
}

#[test]
fn a_search_says_that_the_database_is_behind_and_fresh_looks_at_all() {
    let sandbox = Sandbox::new(&FILES);
    sandbox.run(&["init"]);
    assert_eq!(text(&sandbox.run(&["fork"]).stderr), "");
    sandbox.write("kernel/fork.c", "int fork(void) changed\n");
    sandbox.write("kernel/new.c", "int fork_new(void)\n");
    let output = sandbox.run(&["fork"]);
    assert_eq!(text(&output.stdout), "kernel/fork.c:int fork(void) changed\n");
    assert!(text(&output.stderr).starts_with("faultless: 1 file of this result has changed"));
    let output = sandbox.run(&["--fresh", "fork"]);
    let both = "kernel/fork.c:int fork(void) changed\nkernel/new.c:int fork_new(void)\n";
    assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), (both, ""));
}

#[test]
fn utf_32_is_found_in_files_that_are_read_from_the_disk() {
    let sandbox = Sandbox::new(&FILES);
    let utf32 = |word: fn(u32) -> [u8; 4], text: &str| -> Vec<u8> {
        "\u{feff}".chars().chain(text.chars()).flat_map(|char| word(char as u32)).collect()
    };
    fs::write(sandbox.tree.join("le"), utf32(u32::to_le_bytes, "größer 🦀\n")).unwrap();
    fs::write(sandbox.tree.join("be"), utf32(u32::to_be_bytes, "größer 🦀\n")).unwrap();
    let both = "be:größer 🦀\nle:größer 🦀\n";
    let found = |args: &[&str]| text(&sandbox.run(args).stdout);
    assert_eq!(found(&["--sort=path", "größer"]), both, "there is no database");
    assert_eq!(found(&["größer", "be", "le", "--sort=path"]), both, "they are named");
    assert_eq!(found(&["größer", "-Enone"]), "", "their bytes are what counts");
    sandbox.run(&["init"]);
    assert_eq!(found(&["größer", "--sort=path"]), both, "they are in the database");
    for path in ["le", "be"] {
        let file = fs::File::options().write(true).open(sandbox.tree.join(path)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(20)).unwrap();
    }
    assert_eq!(found(&["größer", "--sort=path"]), both, "they seem to have changed");
    assert_eq!(found(&["größer", "--sort=path", "--fresh"]), both);
}

#[test]
fn what_is_marked_is_searched_on_disk() {
    let sandbox = Sandbox::new(&FILES);
    sandbox.run(&["init"]);
    sandbox.write("kernel/new.c", "int fork_new(void)\n");
    sandbox.out(&["change", "kernel/new.c"]);
    assert_eq!(sandbox.out(&["fork_new"]), "kernel/new.c:int fork_new(void)\n");
    assert!(sandbox.out(&["info"]).contains("changed   1 file,"));
    assert_eq!(sandbox.run(&["change", ".hidden"]).status.code(), Some(1));
    sandbox.out(&["update"]);
    assert!(!sandbox.out(&["info"]).contains("changed"));
    assert_eq!(sandbox.out(&["fork_new"]), "kernel/new.c:int fork_new(void)\n");
}

#[test]
fn a_project_has_several_folders_and_expressions() {
    let sandbox = Sandbox::new(&FILES);
    let config = sandbox.home.join(".config/faultless/grep");
    fs::create_dir_all(&config).unwrap();
    let tree = sandbox.tree.display();
    let file = format!("path {tree}/kernel\ngroup\npath {tree}/fs\ninclude make\nendgroup\nexclude ^sched\n");
    fs::write(config.join("two.cfg"), file).unwrap();
    assert!(sandbox.failure(&["fork", "--project", "two"]).contains("faultless index build --project two"));
    sandbox.out(&["build", "--project", "two"]);
    assert!(!sandbox.tree.join(".faultless").exists(), "nothing is written into the tree");
    assert_eq!(sandbox.out(&["files", "--project", "two"]), "fs/Makefile\nkernel/fork.c\n");
    let elsewhere = sandbox.command(&["files", "--project", "*", "fork"]).current_dir("/").output().unwrap();
    assert!(text(&elsewhere.stdout).ends_with("/tree/kernel/fork.c\n"));
    assert!(sandbox.out(&["projects"]).starts_with("two  2 files"));
    fs::write(config.join("two.cfg"), format!("path {tree}/kernel\n")).unwrap();
    sandbox.out(&["update", "--project", "two"]);
    assert_eq!(sandbox.out(&["files", "--project", "two"]), "kernel/fork.c\nkernel/sched/core.c\n");
    fs::write(config.join("two.cfg"), "path").unwrap();
    assert!(sandbox.failure(&["update", "--project", "two"]).contains("two.cfg:1: "));
    assert!(sandbox.failure(&["update", "--project", "three"]).contains("no such project"));
}

#[test]
fn init_makes_a_project_with_a_name() {
    let sandbox = Sandbox::new(&FILES);
    let init = ["init", "--name", "mine", "kernel", "--hidden"];
    sandbox.out(&init);
    assert_eq!(sandbox.out(&["files", "--project", "mine"]).lines().count(), 2);
    assert!(sandbox.failure(&init).contains("there is such a project"));
    assert!(sandbox.failure(&["init", "--name", "../up"]).contains("no name"));
}

#[test]
fn queries_are_answered_one_after_another() {
    let sandbox = Sandbox::new(&FILES);
    sandbox.run(&["init"]);
    let output = sandbox.with_input(&["interactive"], "search 'fork'\nfiles nothing\nsearch '('\n\"\n");
    let said = text(&output.stdout);
    assert_eq!(said, "kernel/fork.c:int fork(void)\n\u{0}0\n\u{0}1\n\u{0}2\n\u{0}2\n");
    assert!(text(&output.stderr).contains("a quote has no end"));
}

#[test]
fn what_can_not_be_done_is_said_in_a_line() {
    let sandbox = Sandbox::new(&FILES);
    for verb in ["update", "info", "files"] {
        assert!(
            sandbox.failure(&[verb]).contains("no database here or above; `faultless index init` makes one")
        );
    }
    assert!(sandbox.failure(&["change", "x"]).contains("`faultless index init`"));
    assert!(sandbox.failure(&["init", "nowhere"]).contains("nowhere"));
    assert!(sandbox.failure(&["init", "data.bin"]).contains("no folder"));
    sandbox.out(&["init"]);
    let lock = fs::File::options().write(true).open(sandbox.tree.join(".faultless/grep/lock")).unwrap();
    lock.lock().unwrap();
    assert!(sandbox.failure(&["update"]).contains("another process is updating this database"));
    assert!(sandbox.failure(&["init"]).contains("another process is updating this database"));
}

#[test]
fn flags_that_read_the_disk_do_not_go_with_projects() {
    let sandbox = Sandbox::new(&FILES);
    sandbox.out(&["init", "--name", "kernel", "kernel"]);
    assert!(sandbox.out(&["--project", "kernel", "-Eauto", "fork"]).contains("int fork"));
    for (words, flag) in [
        (&["--max-filesize=1"][..], "--max-filesize"),
        (&["-Elatin1"], "--encoding"),
        (&["-L"], "--follow"),
        (&["--ignore-file", "fs/Makefile"], "--ignore-file"),
        (&["--one-file-system"], "--one-file-system"),
        (&["--null-data"], "--null-data"),
    ] {
        let said = sandbox.failure(&[&["--project", "kernel", "fork"], words].concat());
        let expected = format!("faultless: {flag} reads files from the disk, ");
        assert!(said.starts_with(&expected) && said.contains("without --project"), "{said}");
    }
}

/// Waits until `what` is true: a watch runs at its own pace.
pub(crate) fn wait(what: impl Fn() -> bool) {
    let end = SystemTime::now() + Duration::from_secs(300);
    while !what() {
        assert!(SystemTime::now() < end, "nothing happened");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_watch_keeps_up_with_files_folders_and_renames() {
    let sandbox = Sandbox::new(&FILES);
    sandbox.out(&["init"]);
    let log = sandbox.home.join("log");
    let mut watch = sandbox
        .command(&["watch", "--quiet", "200ms"])
        .stderr(fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let log = || fs::read_to_string(&log).unwrap();
    let finds = |pattern: &str| text(&sandbox.run(&[pattern]).stdout);
    wait(|| log().contains("in the database"));
    assert!(sandbox.failure(&["watch"]).contains("another process is watching"));
    fs::write(sandbox.tree.join("kernel/fork.c"), "int spoon(void)\n").unwrap();
    wait(|| finds("spoon") == "kernel/fork.c:int spoon(void)\n");
    fs::create_dir_all(sandbox.tree.join("new/deep")).unwrap();
    fs::write(sandbox.tree.join("new/deep/x.c"), "int knife(void)\n").unwrap();
    wait(|| finds("knife") == "new/deep/x.c:int knife(void)\n");
    fs::rename(sandbox.tree.join("new"), sandbox.tree.join("other")).unwrap();
    wait(|| finds("knife") == "other/deep/x.c:int knife(void)\n");
    fs::write(sandbox.tree.join("other/deep/y.c"), "int plate(void)\n").unwrap();
    wait(|| finds("plate") == "other/deep/y.c:int plate(void)\n");
    fs::remove_dir_all(sandbox.tree.join("other")).unwrap();
    wait(|| finds("knife").is_empty() && sandbox.out(&["files"]).lines().count() == 3);
    let interrupted = Command::new("kill").args(["-INT", &watch.id().to_string()]).status().unwrap();
    assert!(interrupted.success() && watch.wait().unwrap().success());
    let said = log();
    assert!(!said.contains("faultless:"), "{said}");
}

#[test]
fn a_watch_ends_when_the_tree_has_gone() {
    let sandbox = Sandbox::new(&FILES);
    sandbox.out(&["init", "--name", "kernel", "kernel"]);
    let mut watch =
        sandbox.command(&["watch", "--project", "kernel"]).stderr(Stdio::piped()).spawn().unwrap();
    fs::rename(sandbox.tree.join("kernel"), Path::new(&sandbox.home).join("kernel")).unwrap();
    assert_eq!(watch.wait().unwrap().code(), Some(2));
}

#[test]
fn a_file_that_ends_with_half_a_line_end_has_an_empty_line_there() {
    let sandbox = Sandbox::new(&[("a", "x\r"), ("b", "y\r\nz\r\n"), ("c", "z\r\n\r\n")]);
    sandbox.out(&["init"]);
    // As ripgrep prints it.
    assert_eq!(sandbox.out(&["--crlf", "-n", "^$"]), "a:1:x\r\r\nc:2:\r\n");
    assert_eq!(sandbox.out(&["-n", r"\r(?R)$"]), "a:1:x\r\n");
}
