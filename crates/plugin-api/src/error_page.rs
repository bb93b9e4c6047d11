//! The page for a bare status. It carries nginx's reason phrase, and the address of APISIX: scripts look for both.

/// The page of APISIX for a status, with its reason phrase as the title.
pub fn html(status: u16) -> String {
    let phrase = tidegate_protocol::status::reason(status);
    let title = if phrase.is_empty() { status.to_string() } else { format!("{status} {phrase}") };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><title>{title}</title></head>\n\
         <body><h1>{title}</h1><p>Tidegate, compatible with <a \
         href=\"https://apisix.apache.org/\">Apache APISIX</a></p>\
         </body>\n</html>\n"
    )
}
