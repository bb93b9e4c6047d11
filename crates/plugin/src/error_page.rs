//! The page for a bare status. Scripts look for nginx's reason phrase and for the name APISIX in it, so both are there.

pub fn html(status: u16) -> String {
    let phrase = wire::status::reason(status);
    let title = if phrase.is_empty() { status.to_string() } else { format!("{status} {phrase}") };
    format!(
        "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1></center>\r\n\
         <hr><center>openresty</center>\r\n<p><em>Powered by <a href=\"https://apisix.apache.org/\">APISIX</a>.\
         </em></p></body>\r\n</html>\r\n"
    )
}
