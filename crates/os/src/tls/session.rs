//! External pre-shared keys for OpenSSL: it calls back for them, and gets them as sessions.
//!
//! `SSL_CTX_set_psk_client_callback` and its like, which the `openssl` crate has, are for keys with
//! SHA-256 only, so these are the functions below, which the crate does not have.
use super::Psk;
use foreign_types::{ForeignType, ForeignTypeRef};
use openssl::ex_data::Index;
use openssl::ssl::{Ssl, SslContext, SslContextBuilder, SslRef, SslSession};
use openssl_sys::{SSL, SSL_CTX, SSL_SESSION, TLS1_3_VERSION};
use std::ffi::{c_int, c_uint, c_void};
use std::mem;
use std::ptr;
use std::slice;
use std::sync::{Arc, LazyLock};

/// The extension `pre_shared_key` (RFC 8446, section 4.2).
const PRE_SHARED_KEY: c_uint = 41;
/// The alert `unknown_psk_identity` (RFC 8446, section 6).
const UNKNOWN_PSK_IDENTITY: c_int = 115;

/// `SSL_CIPHER`, only ever behind pointers of OpenSSL.
#[repr(C)]
struct SslCipher {
    _opaque: [u8; 0],
}

/// `SSL_psk_find_session_cb_func` (ssl.h).
type FindSession = unsafe extern "C" fn(*mut SSL, *const u8, usize, *mut *mut SSL_SESSION) -> c_int;
/// `SSL_psk_use_session_cb_func` (ssl.h).
type UseSession = unsafe extern "C" fn(
    *mut SSL,
    *const c_void,
    *mut *const u8,
    *mut usize,
    *mut *mut SSL_SESSION,
) -> c_int;

// Declared as in ssl.h of OpenSSL 1.1.1 and 3, which openssl-sys links.
unsafe extern "C" {
    fn SSL_CTX_set_psk_find_session_callback(ctx: *mut SSL_CTX, cb: Option<FindSession>);
    fn SSL_CTX_set_psk_use_session_callback(ctx: *mut SSL_CTX, cb: Option<UseSession>);
    fn SSL_SESSION_new() -> *mut SSL_SESSION;
    fn SSL_SESSION_set1_master_key(
        session: *mut SSL_SESSION,
        key: *const u8,
        length: usize,
    ) -> c_int;
    fn SSL_SESSION_set_cipher(session: *mut SSL_SESSION, cipher: *const SslCipher) -> c_int;
    fn SSL_SESSION_set_protocol_version(session: *mut SSL_SESSION, version: c_int) -> c_int;
    fn SSL_CIPHER_find(ssl: *mut SSL, value: *const u8) -> *const SslCipher;
}

/// Finds the key of a ClientHello.
type FindPsk = Box<dyn Fn(&[u8]) -> Option<Arc<Psk>> + Send + Sync>;

/// The keys of a target, which its context has.
static TABLE: LazyLock<Index<SslContext, FindPsk>> =
    LazyLock::new(|| SslContext::new_ex_index().expect("memory for an index"));
/// The key of a connection: a host's from the beginning, a target's once the host has offered it.
static KEY: LazyLock<Index<Ssl, Arc<Psk>>> =
    LazyLock::new(|| Ssl::new_ex_index().expect("memory for an index"));

/// The key of a connection.
pub(super) fn key(ssl: &SslRef) -> Option<&Arc<Psk>> {
    ssl.ex_data(*KEY)
}

/// Sets the key that a host offers.
pub(super) fn set_key(ssl: &mut SslRef, psk: Arc<Psk>) {
    ssl.set_ex_data(*KEY, psk);
}

/// Lets the hosts of these keys connect, and nobody else.
pub(super) fn accept_keys(context: &mut SslContextBuilder, table: FindPsk) {
    context.set_ex_data(*TABLE, table);
    // SAFETY: the context is alive, and the callbacks have the types of ssl.h. They use no argument.
    unsafe {
        let context = context.as_ptr();
        openssl_sys::SSL_CTX_set_client_hello_cb(context, Some(client_hello), ptr::null_mut());
        SSL_CTX_set_psk_find_session_callback(context, Some(find_session));
    }
}

/// Lets connections offer the keys that are set for them.
pub(super) fn offer_keys(context: &mut SslContextBuilder) {
    // SAFETY: the context is alive, and the callback has the type of ssl.h.
    unsafe { SSL_CTX_set_psk_use_session_callback(context.as_ptr(), Some(use_session)) };
}

/// Called with a ClientHello. Finds the key, and leaves its cipher suite only: else OpenSSL might choose
/// one first that the key is not for.
unsafe extern "C" fn client_hello(ssl: *mut SSL, alert: *mut c_int, _: *mut c_void) -> c_int {
    // SAFETY: OpenSSL calls with a connection that is alive, and of which nobody else has a reference
    // that is used meanwhile.
    let connection = unsafe { SslRef::from_ptr_mut(ssl) };
    let mut extension = ptr::null();
    let mut length = 0;
    // SAFETY: as above; the function may be called in this callback, and sets both.
    let found = unsafe {
        openssl_sys::SSL_client_hello_get0_ext(ssl, PRE_SHARED_KEY, &mut extension, &mut length)
    };
    let content: &[u8] = if found == 1 && !extension.is_null() {
        // SAFETY: OpenSSL has set these to the content of the extension, which stays as it is during
        // this callback.
        unsafe { slice::from_raw_parts(extension, length) }
    } else {
        &[]
    };
    let table = connection.ssl_context().ex_data(*TABLE);
    let psk = table.and_then(|find| find(content));
    if let Some(psk) = psk
        && connection.set_ciphersuites(psk.suite).is_ok()
    {
        set_key(connection, psk);
        return openssl_sys::SSL_CLIENT_HELLO_SUCCESS;
    }
    // SAFETY: OpenSSL calls with a place for the alert.
    unsafe { *alert = UNKNOWN_PSK_IDENTITY };
    openssl_sys::SSL_CLIENT_HELLO_ERROR
}

/// Called with each identity of a ClientHello. Gives OpenSSL the session of the one that was found.
unsafe extern "C" fn find_session(
    ssl: *mut SSL,
    identity: *const u8,
    length: usize,
    session: *mut *mut SSL_SESSION,
) -> c_int {
    // SAFETY: OpenSSL calls with a connection that is alive, an identity of this length, and a place
    // for a session, which becomes its own.
    unsafe {
        *session = ptr::null_mut();
        let offered = if length == 0 { &[] } else { slice::from_raw_parts(identity, length) };
        let Some(psk) = key(SslRef::from_ptr(ssl)) else { return 1 };
        if offered != psk.identity.as_bytes() {
            return 1;
        }
        let Some(made) = new_session(ssl, psk) else { return 0 };
        *session = into_raw(made);
    }
    1
}

/// Called before a ClientHello is sent. Gives OpenSSL the key of the connection as a session.
unsafe extern "C" fn use_session(
    ssl: *mut SSL,
    _hash: *const c_void,
    identity: *mut *const u8,
    length: *mut usize,
    session: *mut *mut SSL_SESSION,
) -> c_int {
    // SAFETY: OpenSSL calls with a connection that is alive, places for an identity, which it copies
    // before it does anything else with the connection, and for a session, which becomes its own. The
    // context has the key's cipher suite only, so that the hash is that of the key.
    unsafe {
        let Some(psk) = key(SslRef::from_ptr(ssl)) else { return 0 };
        let Some(made) = new_session(ssl, psk) else { return 0 };
        *identity = psk.identity.as_ptr();
        *length = psk.identity.len();
        *session = into_raw(made);
    }
    1
}

/// The session that OpenSSL takes for this key.
///
/// # Safety
/// `ssl` is alive.
unsafe fn new_session(ssl: *mut SSL, psk: &Psk) -> Option<SslSession> {
    // SAFETY: `ssl` is alive, the key and the value of the cipher suite have the lengths that the
    // functions read, and the session is freed with `made` unless it is given away.
    unsafe {
        let cipher = SSL_CIPHER_find(ssl, psk.suite_value.as_ptr());
        if cipher.is_null() {
            return None;
        }
        let session = SSL_SESSION_new();
        if session.is_null() {
            return None;
        }
        let made = SslSession::from_ptr(session);
        let is_set = SSL_SESSION_set1_master_key(session, psk.key.as_ptr(), psk.key.len()) == 1
            && SSL_SESSION_set_cipher(session, cipher) == 1
            && SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1;
        is_set.then_some(made)
    }
}

/// The pointer of a session, whose reference is the caller's.
fn into_raw(session: SslSession) -> *mut SSL_SESSION {
    let raw = session.as_ptr();
    mem::forget(session);
    raw
}
