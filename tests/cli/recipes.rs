//! The scripts of docs/recipes.md, run as they stand there.

use std::path::Path;

use crate::env::{Answer, Call, Registry, TestEnv};

const IDEM: &str = env!("CARGO_BIN_EXE_idem");

/// The fenced block that follows `<!-- recipe: NAME -->`.
fn recipe(name: &str) -> String {
    let mark = format!("<!-- recipe: {name} -->");
    let text = include_str!("../../docs/recipes.md");
    let after = text.split_once(&mark).unwrap_or_else(|| panic!("docs/recipes.md has no {mark}")).1;
    let fenced = after.trim_start().strip_prefix("```").and_then(|rest| rest.split_once('\n')).expect("a fence").1;
    fenced.split_once("\n```").expect("its end").0.to_owned() + "\n"
}

/// A world with the recipe's files in its work folder, and with `idem` on the path.
fn with(files: &[&str]) -> TestEnv {
    let env = TestEnv::new();
    for name in files {
        env.write(name, recipe(name));
    }
    std::fs::create_dir(env.file("bin")).expect("a folder");
    std::os::unix::fs::symlink(IDEM, env.file("bin/idem")).expect("a link");
    env
}

/// A shell script in that world.
fn shell<'a>(env: &'a TestEnv, script: &str) -> Call<'a> {
    let path = std::env::var("PATH").expect("a path");
    let call = env.idem([] as [&str; 0]).under(["sh", "-c", script]);
    call.var("PATH", format!("{}:{path}", env.file("bin").display())).var("IDEM_WHO", "ada").var("IDEM_CONV", "c1")
}

fn run(env: &TestEnv, script: &str) -> Answer {
    shell(env, script).answer()
}

#[test]
fn an_order_whose_answer_was_lost_is_sent_again_with_its_key() {
    let env = with(&["order.sh"]);
    let shop = Registry::new();
    shop.lose_answer_to("POST /orders");
    let order = || shell(&env, "sh order.sh tea 2").var("SHOP", shop.url()).answer();
    let lost = order();
    assert!(lost.code() != Some(0) && shop.orders().len() == 1, "{lost}");
    order().exits(0).prints("order 1: 2 x tea\n").is_a_first_run();
    order().exits(0).prints("order 1: 2 x tea\n").is_a_replay();
    assert_eq!(shop.orders(), [("order 1: 2 x tea\n".to_owned(), 2)], "one order, sent twice");
}

#[test]
fn a_push_that_arrived_is_not_pushed_again() {
    let env = with(&["push.sh"]);
    let setup = "export GIT_CONFIG_GLOBAL=/dev/null; git init -q --bare target.git && git init -q -b main w && cd w && \
                 git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one && git remote add origin ../target.git";
    run(&env, setup).exits(0);
    // Its answer is lost: the push works, and git is said to have failed.
    let git = "#!/bin/sh\nreal=$(PATH=${PATH#*:} command -v git)\n\"$real\" \"$@\" || exit\n\
               if [ \"$1\" = push ] && [ -e ../cut ]; then rm ../cut; exit 128; fi\n";
    crate::env::set_mode(&env.write("bin/git", git), 0o755);
    env.write("cut", "");
    let push = || run(&env, "cd w && sh ../push.sh origin main");
    let first = push();
    first.exits(0).says("its probe says that it landed");
    assert!(first.text().starts_with("pushed "), "{first}");
    push().exits(0).is_a_replay();
    let log = run(&env, "git -C target.git log --oneline main | wc -l");
    log.exits(0).prints("1\n");
    // A remote that can't be asked leaves it unknown.
    run(&env, "cd w && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m two").exits(0);
    run(&env, "mv target.git away && cd w && sh ../push.sh origin main").exits(128);
    push().exits(121);
    run(&env, "mv away target.git").exits(0);
    push().exits(0).is_a_first_run();
}

#[test]
fn a_payment_is_one_row() {
    let env = with(&["pay.sh", "insert.sh", "paid.sh"]);
    env.write("payment.json", r#"{"to":"bob's","cents":250}"#);
    run(&env, "sqlite3 bank.db 'CREATE TABLE payment (call TEXT UNIQUE, whom TEXT, cents INTEGER)'").exits(0);
    let pay = || run(&env, "sh pay.sh payment.json");
    // It is paid, and then everything is killed.
    let sqlite = "#!/bin/sh\nreal=$(PATH=${PATH#*:} command -v sqlite3)\n\"$real\" \"$@\" || exit\n\
                  if [ -e cut ] && [ \"$1\" = bank.db ]; then rm cut; kill -9 $PPID; fi\n";
    crate::env::set_mode(&env.write("bin/sqlite3", sqlite), 0o755);
    env.write("cut", "");
    pay().exits(0).prints("paid 250 to bob's\n").says("its probe says that it landed");
    pay().exits(0).prints("paid 250 to bob's\n").is_a_replay();
    run(&env, "sqlite3 -readonly bank.db 'SELECT whom, cents FROM payment'").exits(0).prints("bob's|250\n");
}

#[test]
fn a_release_publishes_each_package_once_wherever_it_dies() {
    for lost in ["", "PUT /core/1.4.0", "PUT /cli/1.4.0", "PUT /tools/1.4.0"] {
        let env = with(&["release.sh", "published.sh"]);
        let registry = Registry::new();
        for package in ["core", "cli", "web", "docs", "tools"] {
            env.write(&format!("{package}.tgz"), package);
        }
        registry.lose_answer_to(lost);
        // And it is killed in its third step, with its idem.
        let curl = "#!/bin/sh\nreal=$(PATH=${PATH#*:} command -v curl)\ncase \"$*\" in *PUT*web*) [ -e died ] || \
                    { : > died; kill -9 $PPID $$; };; esac\nexec \"$real\" \"$@\"\n";
        crate::env::set_mode(&env.write("bin/curl", curl), 0o755);
        let script = recipe("release");
        let release = || shell(&env, &script).var("REGISTRY", registry.url()).answer();
        let mut turns = 0;
        while release().code() != Some(0) {
            turns += 1;
            assert!(turns < 5, "it gets through");
        }
        let packages = ["/cli/1.4.0", "/core/1.4.0", "/docs/1.4.0", "/tools/1.4.0", "/web/1.4.0"];
        assert_eq!(registry.puts(), packages.map(|package| (package.to_owned(), 1)), "{lost}");
        release().exits(0).is_a_replay();
        let told: serde_json::Value = serde_json::from_str(&env.text_of("release.json")).expect("an envelope");
        let members = told["members"].as_array().expect("members");
        let names: Vec<_> = members.iter().filter_map(|member| member["name"].as_str()).collect();
        assert_eq!(names, ["core", "cli", "web", "docs", "tools"]);
        assert_eq!(members.iter().filter(|member| member["kind"] == "step").count(), 5);
    }
}

/// The lines of a YAML block that begins with this key.
fn yaml_script(name: &str, key: &str) -> String {
    let text = recipe(name);
    let start = text.lines().position(|line| line.trim_start() == format!("{key}: |")).expect("the script");
    let lines: Vec<&str> = text.lines().skip(start + 1).collect();
    let indent = lines[0].len() - lines[0].trim_start().len();
    lines.iter().map(|line| line.get(indent..).unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_job_that_is_run_again_deploys_once_and_a_new_run_deploys_anew() {
    let runs = [
        ("deploy.yml", "run", "GITHUB_RUN_ID", "GITHUB_SHA"),
        ("gitlab-ci.yml", "script", "CI_PIPELINE_ID", "CI_COMMIT_SHA"),
    ];
    for (file, key, conv, sha) in runs {
        let env = with(&[]);
        env.write("deploy.sh", "echo $1 >> deployed; [ -e ok ] || exit 7; echo deployed $1");
        env.write("deployed.sh", "exit 2");
        let script = yaml_script(file, key);
        let job = |run: &str| {
            let call = shell(&env, &script).var("GITHUB_REPOSITORY", "a/b").var("CI_PROJECT_PATH", "a/b");
            call.var(conv, run).var(sha, "c0ffee").answer()
        };
        job("1").exits(7);
        job("1").exits(121);
        assert_eq!(env.text_of("deployed"), "c0ffee\n", "{file}: the re-run doesn't deploy");
        env.write("ok", "");
        job("2").exits(0);
        job("2").exits(0).is_a_replay();
        assert_eq!(env.text_of("deployed"), "c0ffee\nc0ffee\n", "{file}");
    }
}

/// What a tool runner tells a model, for calls with each kind of answer.
fn tool_runner(env: &TestEnv, runner: &str) {
    let told = |conversation: &str, command: &str| {
        let call = shell(env, runner).var("CONVERSATION", conversation).var("COMMAND", command);
        let answer = call.answer();
        answer.exits(0).json_line()
    };
    let first = told("fine", "echo hello; echo run >> runs");
    assert_eq!((&first["ok"], &first["result"], &first["repeated"]), (&true.into(), &"hello\n".into(), &false.into()));
    assert_eq!(told("fine", "echo hello; echo run >> runs")["repeated"], true);
    assert_eq!(env.runs(), 1);
    let advice = |conversation: &str, command: &str| {
        let told = told(conversation, command);
        assert_eq!(told["ok"], false, "{told}");
        assert!(told["message"].as_str().is_some_and(|message| !message.is_empty()), "{told}");
        told["advice"].as_str().expect("advice").to_owned()
    };
    for _ in 0..2 {
        assert!(advice("lost", "exit 7").starts_with("do not call again"), "the first time and the second");
    }
    assert!(advice("fine", "echo another").starts_with("this is another action"));
    assert!(advice("local", "exit 1").starts_with("it did not happen"));
    assert!(advice("", "echo x").starts_with("nothing was run"));
}

#[test]
fn the_tool_runner_in_python_tells_a_model_what_to_do() {
    let env = with(&["tools.py"]);
    let runner = "python3 -c 'import json, os, tools
c = os.environ[\"CONVERSATION\"]
print(json.dumps(tools.call_tool(c, \"t\", {\"n\": 1}, [\"sh\", \"-c\", os.environ[\"COMMAND\"]], c != \"local\")))'";
    tool_runner(&env, runner);
}

#[test]
fn the_tool_runner_in_node_tells_a_model_what_to_do() {
    let env = with(&["tools.mjs"]);
    assert!(Path::new(&env.file("tools.mjs")).exists());
    env.write(
        "main.mjs",
        "import { callTool } from './tools.mjs'\nconst { CONVERSATION: c, COMMAND: command } = process.env\n\
         console.log(JSON.stringify(callTool(c, 't', { n: 1 }, ['sh', '-c', command], c !== 'local')))\n",
    );
    tool_runner(&env, "node main.mjs");
}
