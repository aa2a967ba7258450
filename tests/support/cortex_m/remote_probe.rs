//! A SWD probe for pyOCD, which speaks to it in lines of JSON (`pyocd/probe/tcp_client_probe.py`).

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use serde_json::{Value, json};

use super::chip::Shared;
use super::dap::Dap;

// Status codes of the protocol.
const TRANSFER_ERROR: u32 = 10;
const TRANSFER_FAULT: u32 = 12;

/// Serves one connection of pyOCD.
pub fn serve(shared: &Arc<Shared>, mut stream: TcpStream) -> std::io::Result<()> {
    let mut dap = Dap::new(Arc::clone(shared));
    for line in BufReader::new(stream.try_clone()?).lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let mut answer = match answer(shared, &mut dap, &request) {
            Ok(result) => json!({ "status": 0, "result": result }),
            Err(status) => json!({ "status": status, "error": "the transfer failed" }),
        };
        answer["id"] = request["id"].clone();
        let latency = shared.lock().pace.latency;
        shared.sleep(latency);
        stream.write_all(format!("{answer}\n").as_bytes())?;
    }
    Ok(())
}

fn answer(shared: &Shared, dap: &mut Dap, request: &Value) -> Result<Value, u32> {
    let arguments = &request["arguments"];
    let number = |at: usize| arguments[at].as_u64().unwrap_or(0) as u32;
    let name = request["request"].as_str().unwrap_or("");
    if shared.lock().unplugged && name.contains("_dp") | name.contains("_ap") {
        return Err(TRANSFER_ERROR);
    }
    match name {
        "readprop" => {
            return Ok(match arguments[0].as_str() {
                Some("capabilities") => json!([]),
                Some("supported_wire_protocols") => json!(["DEFAULT", "SWD"]),
                Some("wire_protocol") => json!("SWD"),
                _ => json!("simulated"),
            });
        }
        "assert_reset" if arguments[0] == true => shared.change(|chip| chip.reset(true)),
        "assert_reset" => shared.change(|chip| chip.release_reset()),
        "reset" => shared.change(|chip| chip.reset(false)),
        "is_reset_asserted" => return Ok(json!(false)),
        "read_dp" if number(0) == 0 => return Ok(json!(0x2BA0_1477)),
        "read_dp" => return Ok(json!(dap.read_dp(number(0)))),
        // ABORT: STKERRCLR.
        "write_dp" if number(0) == 0 && number(1) & 4 != 0 => dap.clear_error(),
        "write_dp" => dap.write_dp(number(0), number(1)),
        "read_ap" | "read_ap_multiple" => {
            let count = if name == "read_ap" { 1 } else { number(1) };
            let words: Vec<u32> = (0..count).map(|_| dap.ap(number(0) & 0xC, None)).collect();
            let result = if name == "read_ap" { json!(words[0]) } else { json!(words) };
            return if dap.failed() { Err(TRANSFER_FAULT) } else { Ok(result) };
        }
        "write_ap" | "write_ap_multiple" => {
            for word in arguments[1].as_array().unwrap_or(&vec![arguments[1].clone()]) {
                dap.ap(number(0) & 0xC, Some(word.as_u64().unwrap_or(0) as u32));
            }
            if dap.failed() {
                return Err(TRANSFER_FAULT);
            }
        }
        // Opening, closing, locks, clocks and line sequences; and that it has no memory interface of its own.
        _ => {}
    }
    Ok(Value::Null)
}
