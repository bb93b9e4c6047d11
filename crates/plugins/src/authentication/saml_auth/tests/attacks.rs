//! Documents that an attacker makes. What only a provider could sign is signed here, so that it is refused for what it says.

use aws_lc_rs::{
    digest,
    encoding::{AsDer, PublicKeyX509Der},
    rand::SystemRandom,
    rsa::KeySize,
    signature::{KeyPair, RSA_PKCS1_SHA256, RsaKeyPair},
};
use tidegate_clients::nginx_base64;

use super::{
    super::{
        canonical,
        message::{Message, Vouched, vouched},
        signature::ProviderKey,
        tree,
    },
    EXPECTED,
};

/// Where the signature goes.
const HERE: &str = "<here/>";
const ENVELOPED: &str = "http://www.w3.org/2000/09/xmldsig#enveloped-signature";
const EXCLUSIVE: &str = "http://www.w3.org/2001/10/xml-exc-c14n#";
const SHA_256: &str = "http://www.w3.org/2001/04/xmlenc#sha256";

/// How a signature is made; what is wrong with it is what differs from `Default`.
struct How<'h> {
    uri: &'h str,
    transforms: &'h str,
    digest: (&'h str, &'static digest::Algorithm),
    /// Added to `SignedInfo`, and around it.
    more_signed: &'h str,
    more: &'h str,
}

const TRANSFORMS: &str = "<ds:Transform Algorithm=\"http://www.w3.org/2000/09/xmldsig#enveloped-signature\"/>\
    <ds:Transform Algorithm=\"http://www.w3.org/2001/10/xml-exc-c14n#\"/>";

impl Default for How<'_> {
    fn default() -> Self {
        How {
            uri: "#_a",
            transforms: TRANSFORMS,
            digest: (SHA_256, &digest::SHA256),
            more_signed: "",
            more: "",
        }
    }
}

struct Provider(RsaKeyPair);

impl Provider {
    fn new() -> Provider {
        Provider(RsaKeyPair::generate(KeySize::Rsa2048).expect("a key"))
    }

    fn key(&self) -> ProviderKey {
        let der = AsDer::<PublicKeyX509Der>::as_der(self.0.public_key()).expect("a public key");
        let pem = format!(
            "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
            nginx_base64::encode(der.as_ref())
        );
        ProviderKey::new(&pem).expect("a key")
    }

    fn value(&self, text: &str) -> String {
        let mut signature = vec![0; self.0.public_modulus_len()];
        let signed = self.0.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature);
        signed.expect("a signature");
        nginx_base64::encode(signature)
    }

    /// An element, with its signature at `<here/>`.
    fn sign(&self, element: &str, how: &How) -> String {
        let bare = tree::parse(element.replace(HERE, "").as_bytes()).expect("an element");
        let text = canonical::of(&bare, None, &[]).expect("a form");
        let what = nginx_base64::encode(digest::digest(how.digest.1, text.as_bytes()));
        let info = format!(
            "<ds:SignedInfo xmlns:ds=\"http://www.w3.org/2000/09/xmldsig#\"><ds:CanonicalizationMethod Algorithm=\"{EXCLUSIVE}\"/>\
             <ds:SignatureMethod Algorithm=\"http://www.w3.org/2001/04/xmldsig-more#rsa-sha256\"/><ds:Reference URI=\"{}\">\
             <ds:Transforms>{}</ds:Transforms><ds:DigestMethod Algorithm=\"{}\"/><ds:DigestValue>{what}</ds:DigestValue>\
             </ds:Reference>{}</ds:SignedInfo>",
            how.uri, how.transforms, how.digest.0, how.more_signed
        );
        let signed = tree::parse(info.as_bytes()).expect("an element");
        let value = self.value(&canonical::of(&signed, None, &[]).expect("a form"));
        let signature = format!(
            "<ds:Signature xmlns:ds=\"http://www.w3.org/2000/09/xmldsig#\">{info}<ds:SignatureValue>{value}</ds:SignatureValue>{}</ds:Signature>",
            how.more
        );
        element.replace(HERE, &signature)
    }
}

fn assertion(name: &str) -> String {
    format!(
        "<saml:Assertion xmlns:saml=\"urn:oasis:names:tc:SAML:2.0:assertion\" ID=\"_a\" Version=\"2.0\">\
         <saml:Issuer>https://idp.test</saml:Issuer>{HERE}<saml:Subject><saml:NameID>{name}</saml:NameID>\
         <saml:SubjectConfirmation Method=\"urn:oasis:names:tc:SAML:2.0:cm:bearer\"><saml:SubjectConfirmationData \
         InResponseTo=\"ID_request\" NotOnOrAfter=\"2120-01-01T00:00:00Z\" Recipient=\"https://sp.test/acs\"/>\
         </saml:SubjectConfirmation></saml:Subject><saml:Conditions NotOnOrAfter=\"2120-01-01T00:00:00Z\">\
         <saml:AudienceRestriction><saml:Audience>https://sp.test</saml:Audience></saml:AudienceRestriction>\
         </saml:Conditions><saml:AuthnStatement/></saml:Assertion>"
    )
}

fn response(inner: &str) -> String {
    format!(
        "<samlp:Response xmlns:samlp=\"urn:oasis:names:tc:SAML:2.0:protocol\" ID=\"_r\" Version=\"2.0\"><samlp:Status>\
         <samlp:StatusCode Value=\"urn:oasis:names:tc:SAML:2.0:status:Success\"/></samlp:Status>{inner}</samlp:Response>"
    )
}

fn read(document: &str, key: &ProviderKey) -> Result<Vouched, String> {
    let message = Message { document: document.as_bytes().to_vec(), is_signed: false };
    vouched(&message, key, &EXPECTED).map_err(|refusal| refusal.reason().to_owned())
}

/// Whom the document logs in.
fn name(document: &str, key: &ProviderKey) -> Result<String, String> {
    read(document, key).map(|vouched| vouched.name_id)
}

#[test]
fn other_ways_to_sign() {
    let (provider, assertion) = (Provider::new(), assertion("jack"));
    let key = provider.key();
    let signed = |how: &How| response(&provider.sign(&assertion, how));
    assert_eq!(name(&signed(&How::default()), &key).as_deref(), Ok("jack"));
    let named = "<ds:KeyInfo><ds:KeyName>_a</ds:KeyName></ds:KeyInfo>";
    assert_eq!(name(&signed(&How { more: named, ..How::default() }), &key).as_deref(), Ok("jack"));
    let transform = |algorithm: &str| format!("<ds:Transform Algorithm=\"{algorithm}\"/>");
    let (enveloped, exclusive) = (transform(ENVELOPED), transform(EXCLUSIVE));
    let transforms = [
        String::new(),
        exclusive.clone(),
        enveloped.clone(),
        format!("{exclusive}{enveloped}"),
        format!("{enveloped}{enveloped}{exclusive}"),
        format!("{enveloped}{}", transform("http://www.w3.org/TR/2001/REC-xml-c14n-20010315")),
        format!("{enveloped}{}", transform("http://www.w3.org/2001/10/xml-exc-c14n#WithComments")),
        format!("{enveloped}{}", transform("http://www.w3.org/TR/1999/REC-xslt-19991116")),
        format!("{}{exclusive}", transform("http://www.w3.org/TR/1999/REC-xpath-19991116")),
        format!("{enveloped}<ds:Transform Algorithm=\"{EXCLUSIVE}\"><ds:XPath>x</ds:XPath></ds:Transform>"),
        format!(
            "{enveloped}<ds:Transform Algorithm=\"{EXCLUSIVE}\"><ec:InclusiveNamespaces xmlns:ec=\"{EXCLUSIVE}\" PrefixList=\"{}\"/></ds:Transform>",
            "a ".repeat(1000)
        ),
    ];
    for transforms in &transforms {
        assert!(read(&signed(&How { transforms, ..How::default() }), &key).is_err(), "{transforms}");
    }
    for uri in
        ["", "#", "_a", "# _a", "#_a ", "#_r", "#xpointer(/)", "#xpointer(id('_a'))", "https://idp.test/#_a"]
    {
        assert!(read(&signed(&How { uri, ..How::default() }), &key).is_err(), "{uri:?}");
    }
    let sha_1 = ("http://www.w3.org/2000/09/xmldsig#sha1", &digest::SHA1_FOR_LEGACY_USE_ONLY);
    let unnamed = ("", &digest::SHA256);
    for digest in [sha_1, unnamed] {
        assert!(read(&signed(&How { digest, ..How::default() }), &key).is_err(), "{}", digest.0);
    }
    let second = "<ds:Reference URI=\"#_r\"/>";
    assert!(read(&signed(&How { more_signed: second, ..How::default() }), &key).is_err());
    for more in [
        "<ds:Object/>",
        "<ds:SignedInfo/>",
        "<ds:SignatureValue>AA==</ds:SignatureValue>",
        "<x/>",
        "<ds:Manifest/>",
    ] {
        assert!(read(&signed(&How { more, ..How::default() }), &key).is_err(), "{more}");
    }
}

/// The key is the one of the configuration, whatever a document has with it.
#[test]
fn keys_of_others() {
    let (provider, stranger) = (Provider::new(), Provider::new());
    let key = provider.key();
    let certificate = include_str!("../signed/other.crt").lines().filter(|line| !line.starts_with('-'));
    let certificate: String = certificate.collect();
    let infos = [
        String::new(),
        format!(
            "<ds:KeyInfo><ds:X509Data><ds:X509Certificate>{certificate}</ds:X509Certificate></ds:X509Data></ds:KeyInfo>"
        ),
        "<ds:KeyInfo><ds:KeyName>idp</ds:KeyName></ds:KeyInfo>".to_owned(),
        "<ds:KeyInfo><ds:RetrievalMethod URI=\"http://127.0.0.1/key\"/></ds:KeyInfo>".to_owned(),
    ];
    for more in &infos {
        let document = response(&stranger.sign(&assertion("root"), &How { more, ..How::default() }));
        assert!(
            read(&document, &key).is_err_and(|reason| reason.contains("identity provider's key")),
            "{more}"
        );
    }
    // Of two signatures each has to count, in either order.
    let by_stranger = stranger.sign(&assertion("root"), &How::default());
    let by_both = provider
        .sign(&by_stranger.replace("</ds:Signature>", &format!("</ds:Signature>{HERE}")), &How::default());
    assert!(read(&response(&by_both), &key).is_err());
    let whole = response(&by_stranger).replace("<samlp:Status>", &format!("{HERE}<samlp:Status>"));
    let whole = provider.sign(&whole, &How { uri: "#_r", ..How::default() });
    assert!(read(&whole, &key).is_err(), "the whole is signed, and a signature in it is not the provider's");
}

#[test]
fn unsigned_and_several_assertions() {
    let provider = Provider::new();
    let key = provider.key();
    let signed = provider.sign(&assertion("jack"), &How::default());
    let bare = assertion("root").replace(HERE, "");
    let other = bare.replace("_a\"", "_b\"");
    let ours = "http://www.w3.org/2000/09/xmldsig#";
    let signature = signed
        .split_once("<ds:Signature")
        .expect("a signature")
        .1
        .split_once("</ds:Signature>")
        .expect("its end")
        .0;
    let signature = format!("<ds:Signature{signature}</ds:Signature>");
    for inner in [
        bare.clone(),
        bare.replace("<saml:Subject>", "<ds:Signature xmlns:ds=\"http://www.w3.org/2000/09/xmldsig#\"/><saml:Subject>"),
        bare.replace("<saml:Subject>", &format!("{}<saml:Subject>", signature.replace(ours, "urn:x"))),
        bare.replace("<saml:Subject>", &format!("{signature}<saml:Subject>")),
        format!("{other}{signed}"),
        format!("{signed}{other}"),
        // Both are the provider's.
        format!("{signed}{}", provider.sign(&assertion("root").replace("_a\"", "_b\""), &How { uri: "#_b", ..How::default() })),
        format!("{signed}{signed}"),
        // Assertions of another namespace, version or name.
        format!("{signed}{}", other.replace("SAML:2.0:assertion", "SAML:1.0:assertion")),
        format!("{signed}<Assertion/>"),
        format!("{signed}<x>{other}</x>"),
        signed.replace("saml:Assertion", "saml:Advice"),
        // Encrypted ones cannot be read, and are not passed over.
        "<saml:EncryptedAssertion xmlns:saml=\"urn:oasis:names:tc:SAML:2.0:assertion\"><x/></saml:EncryptedAssertion>".to_owned(),
        format!("{signed}<saml:EncryptedAssertion xmlns:saml=\"urn:oasis:names:tc:SAML:2.0:assertion\"/>"),
        format!("<saml:EncryptedAssertion xmlns:saml=\"urn:oasis:names:tc:SAML:2.0:assertion\">{signed}</saml:EncryptedAssertion>"),
        String::new(),
    ] {
        assert!(read(&response(&inner), &key).is_err(), "{inner}");
    }
    let encrypted = "<saml:EncryptedID><x/></saml:EncryptedID>";
    let subject = assertion("jack").replace("<saml:NameID>jack</saml:NameID>", encrypted);
    assert!(read(&response(&provider.sign(&subject, &How::default())), &key).is_err());
}

#[test]
fn declarations_and_entities() {
    let provider = Provider::new();
    let key = provider.key();
    let document = response(&provider.sign(&assertion("jack"), &How::default()));
    assert!(read(&format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{document}"), &key).is_ok());
    let mut lol = "<!ENTITY l0 \"lol\">".to_owned();
    for level in 1..10 {
        let below = format!("&l{};", level - 1).repeat(10);
        lol.push_str(&format!("<!ENTITY l{level} \"{below}\">"));
    }
    let named = document.replace(">jack<", ">&l9;<");
    for (declaration, document) in [
        ("<!DOCTYPE x>".to_owned(), &document),
        ("<!DOCTYPE x []>".to_owned(), &document),
        ("<!DOCTYPE x [<!ATTLIST Assertion ID CDATA \"_a\">]>".to_owned(), &document),
        ("<!DOCTYPE x [<!ENTITY l9 \"root\">]>".to_owned(), &named),
        ("<!DOCTYPE x [<!ENTITY l9 SYSTEM \"file:///etc/passwd\">]>".to_owned(), &named),
        ("<!DOCTYPE x SYSTEM \"http://127.0.0.1/x.dtd\">".to_owned(), &named),
        ("<!DOCTYPE x [<!ENTITY % p SYSTEM \"http://127.0.0.1/x.dtd\"> %p;]>".to_owned(), &named),
        (format!("<!DOCTYPE x [{lol}]>"), &named),
        (String::new(), &named),
    ] {
        assert!(read(&format!("{declaration}{document}"), &key).is_err(), "{declaration}");
    }
    for (from, to) in [
        (">jack<", ">jack&nbsp;<"),
        (">jack<", ">ja<?x y?>ck<"),
        (">jack<", ">jack<![CDATA[.evil]]><"),
        ("<saml:Subject>", "<!DOCTYPE x><saml:Subject>"),
    ] {
        assert!(read(&document.replace(from, to), &key).is_err(), "{to}");
    }
    // What says the same in other words is the same.
    for to in [">ja<!--x-->ck<", "><![CDATA[jack]]><", ">ja<![CDATA[]]>c&#x6b;<", ">j&#97;ck<"] {
        assert_eq!(name(&document.replace(">jack<", to), &key).as_deref(), Ok("jack"), "{to}");
    }
}

#[test]
fn ids_spaces_and_namespaces() {
    let provider = Provider::new();
    let key = provider.key();
    let signed = |assertion: &str| response(&provider.sign(assertion, &How::default()));
    let document = signed(&assertion("jack"));
    for (from, to) in [
        // One id twice, at an element or in an element.
        ("<samlp:Status>", "<samlp:Extensions><x ID=\"_a\"/></samlp:Extensions><samlp:Status>"),
        ("<samlp:Status>", "<samlp:Extensions><x Id=\"_a\"/></samlp:Extensions><samlp:Status>"),
        ("<samlp:Status>", "<samlp:Extensions><x id=\"_a\"/></samlp:Extensions><samlp:Status>"),
        ("ID=\"_r\"", "ID=\"_a\""),
        ("ID=\"_a\"", "ID=\"_b\" ID=\"_a\""),
        ("ID=\"_a\"", "ID=\" _a\""),
        ("ID=\"_a\"", "ID=\"_A\""),
        ("ID=\"_a\"", "saml:ID=\"_a\""),
        ("ID=\"_a\"", "ID=\"_a\" Id=\"_a\""),
        // Names that mean something else.
        ("<saml:NameID>", "<saml:NameID xmlns:saml=\"urn:evil\">"),
        ("<saml:Subject>", "<saml:Subject><saml:NameID>root</saml:NameID>"),
        ("<saml:NameID>jack", "<saml:NameID xmlns=\"\">root"),
        (
            "xmlns:saml=\"urn:oasis:names:tc:SAML:2.0:assertion\"",
            "xmlns:saml=\"urn:oasis:names:tc:SAML:2.0:assertion \"",
        ),
        ("xmlns:samlp=\"urn:oasis", "xmlns:samlp=\"urn:Oasis"),
        ("Recipient=", "saml:Recipient="),
        // Spaces are part of a name.
        (">jack<", "> jack<"),
        (">jack<", ">jack\u{a0}<"),
        (">jack<", ">jack\n<"),
    ] {
        let changed = document.replace(from, to);
        assert_ne!(changed, document, "{from}");
        assert!(read(&changed, &key).is_err(), "{to}");
    }
    for (written, kept) in
        [("root\u{a0}", "root\u{a0}"), (" root", " root"), ("r\u{200b}oot", "r\u{200b}oot")]
    {
        assert_eq!(name(&signed(&assertion(written)), &key).as_deref(), Ok(kept));
    }
    for empty in ["", " ", "\u{a0}", "<!-- root -->"] {
        assert!(read(&signed(&assertion(empty)), &key).is_err(), "{empty:?}");
    }
    // Another prefix, and spaces in tags, are the same document; of what is not signed as well.
    let spaced =
        document.replace("<saml:NameID>", "<saml:NameID  >").replace("</saml:NameID>", "</saml:NameID >");
    assert_eq!(name(&spaced, &key).as_deref(), Ok("jack"));
    let prefixed = document.replace("samlp:", "p:").replace("xmlns:samlp", "xmlns:p");
    assert_eq!(name(&prefixed, &key).as_deref(), Ok("jack"));
    assert!(read(&document.replace("saml:", "s:").replace("xmlns:saml", "xmlns:s"), &key).is_err());
}

/// Documents that are small, and would not be once they are read or written in canonical form.
#[test]
fn documents_that_grow() {
    let provider = Provider::new();
    let (key, document) = (provider.key(), response(&provider.sign(&assertion("jack"), &How::default())));
    let long = "u:".repeat(200_000);
    let many = |what: &dyn Fn(usize) -> String, count: usize| (0..count).map(what).collect::<String>();
    for (inner, reason) in [
        (format!("<x xmlns:p='{long}'>{}</x>", "<p:y/>".repeat(9_000)), "its canonical form is too long"),
        (
            format!("<x xmlns:p='{long}'>{}</x>", "<y xmlns:q='u:q'/>".repeat(9_000)),
            "what is signed was changed",
        ),
        (many(&|_| "<x/>".to_owned(), 10_000), "it is not XML"),
        (format!("<x{}/>", many(&|number| format!(" xmlns:n{number}='u:{number}'"), 200)), "it is not XML"),
        (format!("<x{}/>", many(&|number| format!(" a{number}=''"), 500)), "it is not XML"),
        ("<x>".repeat(1000) + &"</x>".repeat(1000), "it is not XML"),
    ] {
        let larger = document.replace("<saml:Subject>", &format!("{inner}<saml:Subject>"));
        assert_eq!(read(&larger, &key).expect_err("it is larger"), reason);
    }
}
