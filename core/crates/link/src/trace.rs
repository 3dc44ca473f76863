//! Trace contexts of requests and messages.

use headrace_wire::{
    headers::{self, Value},
    message::MessageView,
};

/// User header that carries the trace context.
const HEADER: &str = "traceparent";
/// Flag of a context: the trace is sampled.
const SAMPLED: u8 = 1;

/// Parent of a span: a W3C Trace Context, version 00.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// Trace id, not 0.
    pub trace_id: u128,
    /// Parent span, not 0.
    pub span_id: u64,
}

impl TraceContext {
    /// Parse `00-<32 hexadecimal digits>-<16>-<2>`. `None` if the text is invalid or the trace is not sampled.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let mut next = |digits: usize| {
            let part = parts.next().filter(|part| part.len() == digits)?;
            let is_hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            part.bytes().all(is_hexadecimal).then_some(part)
        };
        let (version, trace_id, span_id, flags) = (next(2)?, next(32)?, next(16)?, next(2)?);
        // Later versions may append parts; version 00 has none, and ff is invalid.
        if version == "ff" || (version == "00" && parts.next().is_some()) {
            return None;
        }
        let flags = u8::from_str_radix(flags, 16).ok()?;
        Self::sampled(
            u128::from_str_radix(trace_id, 16).ok()?,
            u64::from_str_radix(span_id, 16).ok()?,
            flags,
        )
    }

    /// Context from separate parts; `None` if they are invalid or the trace is not sampled.
    pub fn sampled(trace_id: u128, span_id: u64, flags: u8) -> Option<Self> {
        let is_one = trace_id != 0 && span_id != 0 && flags & SAMPLED != 0;
        is_one.then_some(Self { trace_id, span_id })
    }

    /// Context from the user headers of the first of `messages`, which must be validated.
    pub fn of_first(messages: &[u8]) -> Option<Self> {
        let (first, _) = MessageView::split_first(messages).ok()?;
        let pair = headers::pairs(first.user_headers())
            .map_while(Result::ok)
            .find(|pair| pair.key.value() == Ok(Value::Text(HEADER)))?;
        match pair.value.value() {
            Ok(Value::Text(text)) => Self::parse(text),
            Ok(Value::Raw(bytes)) => Self::parse(core::str::from_utf8(bytes).ok()?),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    const CONTEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn contexts_are_read_as_they_are_written() {
        let context = TraceContext::parse(CONTEXT).expect("well-formed");
        assert_eq!(context.trace_id, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!(context.span_id, 0x00f0_67aa_0ba9_02b7);
        let later = format!("01{}-more", &CONTEXT[2..]);
        assert_eq!(TraceContext::parse(&later), Some(context));
        for wrong in [
            "",
            "00",
            &format!("{CONTEXT}-more"),
            &format!("ff{}", &CONTEXT[2..]),
            &CONTEXT.to_uppercase(),
            &CONTEXT.replace("-01", "-00"),
            &CONTEXT.replace("00f067aa0ba902b7", "0000000000000000"),
            &CONTEXT.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &CONTEXT.replace('b', "+"),
        ] {
            assert_eq!(TraceContext::parse(wrong), None, "{wrong}");
        }
    }
}
