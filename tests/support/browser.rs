//! A real browser without a window, driven through its own debugging protocol: JSON texts with a zero byte behind each, over
//! two pipes. A shell gives it these as the descriptors that it asks for.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::programs;
use super::tools::Scratch;

/// The longest that one answer may take on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// The browser, with one page.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: Option<String>,
    next: u64,
    /// What the page reported since it was opened: errors, texts for the console, requests.
    pub reported: Vec<String>,
    /// What the page asked a network or a disk for.
    pub requests: Vec<String>,
    _profile: Scratch,
}

impl Browser {
    /// Starts it; `None`, with a loud line, where it is not installed.
    pub fn start(width: u32, height: u32) -> Option<Self> {
        if !programs::installed("chromium") {
            return None;
        }
        let profile = Scratch::new();
        let line = "exec chromium --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
                    --remote-debugging-pipe --user-data-dir=\"$0\" about:blank 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut child = Command::new("sh")
            .args(["-c", line, &profile.0.display().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (to, out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, from) = channel();
        std::thread::spawn(move || {
            for text in BufReader::new(out).split(0) {
                let Ok(text) = text else { return };
                if sender.send(serde_json::from_slice(&text).unwrap()).is_err() {
                    return;
                }
            }
        });
        let (reported, requests) = (Vec::new(), Vec::new());
        let mut browser = Self { child, to, from, session: None, next: 0, reported, requests, _profile: profile };
        let target = browser.ask("Target.createTarget", json!({"url": "about:blank"}));
        let attached = browser.ask("Target.attachToTarget", json!({"targetId": target["targetId"], "flatten": true}));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        browser.resize(width, height);
        Some(browser)
    }

    /// One command; its answer.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut message = json!({"id": self.next, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&message).unwrap();
        bytes.push(0);
        self.to.write_all(&bytes).unwrap();
        let until = Instant::now() + TIME_LIMIT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let got = self.from.recv_timeout(left).unwrap_or_else(|e| panic!("{method}: {e}"));
            if got["id"] == self.next {
                assert!(got["error"].is_null(), "{method}: {got}");
                return got["result"].clone();
            }
            self.note(&got);
        }
    }

    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => self.reported.push(params["exceptionDetails"].to_string()),
            "Runtime.consoleAPICalled" => self.reported.push(params["args"].to_string()),
            "Log.entryAdded" => self.reported.push(params["entry"].to_string()),
            "Network.requestWillBeSent" => {
                self.requests.push(params["request"]["url"].as_str().unwrap_or_default().to_owned());
            }
            _ => {}
        }
    }

    pub fn resize(&mut self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.ask("Emulation.setDeviceMetricsOverride", size);
    }

    pub fn scheme(&mut self, name: &str) {
        let feature = json!([{"name": "prefers-color-scheme", "value": name}]);
        self.ask("Emulation.setEmulatedMedia", json!({"features": feature}));
    }

    /// Opens a page of ours, and waits until it is drawn: milliseconds since it was asked for.
    pub fn open(&mut self, path: &str) -> f64 {
        self.reported.clear();
        self.requests.clear();
        self.ask("Page.navigate", json!({"url": format!("file://{path}")}));
        let until = Instant::now() + TIME_LIMIT;
        loop {
            assert!(Instant::now() < until, "{path} is not ready");
            let state = self.eval(
                "location.protocol === 'file:' && document.documentElement ? \
                 [document.documentElement.dataset.ready, document.documentElement.dataset.failed] : []",
            );
            assert!(state[1].is_null(), "{state}");
            if let Some(ready) = state[0].as_str() {
                return ready.parse().unwrap();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The value of an expression in the page, once it is there.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let got = self.ask("Runtime.evaluate", params);
        assert!(got["exceptionDetails"].is_null(), "{expression}: {got}");
        got["result"]["value"].clone()
    }

    /// The text of an element.
    pub fn text(&mut self, selector: &str) -> String {
        let text = self.eval(&format!("document.querySelector({})?.textContent", json!(selector)));
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits for the next picture.
    pub fn frame(&mut self) {
        self.eval("new Promise(then => requestAnimationFrame(() => requestAnimationFrame(then)))");
    }

    pub fn key(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" && key.len() == 1 { key } else { "" };
            self.ask("Input.dispatchKeyEvent", json!({"type": kind, "key": key, "text": text}));
        }
        self.frame();
    }

    pub fn type_text(&mut self, text: &str) {
        self.ask("Input.insertText", json!({"text": text}));
    }

    pub fn mouse(&mut self, kind: &str, (x, y): (f64, f64), more: Value) {
        let mut params = json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1});
        for (key, value) in more.as_object().unwrap() {
            params[key] = value.clone();
        }
        self.ask("Input.dispatchMouseEvent", params);
    }

    pub fn click(&mut self, at: (f64, f64)) {
        self.mouse("mousePressed", at, json!({}));
        self.mouse("mouseReleased", at, json!({}));
        self.frame();
    }

    /// Clicks on the first element of a selector.
    pub fn click_on(&mut self, selector: &str) {
        let middle = format!(
            "(() => {{ const e = document.querySelector({}); e.scrollIntoView({{block: 'nearest'}}); \
             const b = e.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; }})()",
            json!(selector)
        );
        let at = self.eval(&middle);
        self.click((at[0].as_f64().unwrap(), at[1].as_f64().unwrap()));
    }

    /// A picture of the page.
    pub fn screenshot(&mut self) -> String {
        self.ask("Page.captureScreenshot", json!({"format": "png"}))["data"].as_str().unwrap().to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
