//! DH-HMAC-CHAP: every message in every state, both sides against each other, and responses computed
//! independently.
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zerocopy::{FromBytes, IntoBytes};
use zonal_nvme::auth::{
    AuthConfig, AuthState, AwaitChallenge, AwaitSuccess, ControllerAuth, Group, Hash,
    HostAuthError, Random, Secret, SecretError, Secrets,
};
use zonal_nvme::wire::auth::{Explanation, Failure, Header, MessageId, Success2};

const HOST: &str = "nqn.2026-11.org.example:host";
const SUBSYSTEM: &str = "nqn.2026-11.org.example:zns";
/// The example of the specification: a key without transformation.
const EXAMPLE: &str = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";
/// Made by nvme gen-dhchap-key --hmac=2.
const SHA384: &str =
    "DHHC-1:02:d4gmzh5i0I3npDMWAmJX/nAvAw7ioKmS2w44ceutFeObYDFG/r6zOB3UW0FLzevsI7XDJg==:";

/// Bytes that differ from call to call and are the same in each run.
fn random() -> Random {
    let calls = AtomicU64::new(1);
    Arc::new(move |bytes: &mut [u8]| {
        let call = calls.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        let seed = Hash::Sha512.digest(&call);
        bytes.iter_mut().zip(seed.iter().cycle()).for_each(|(byte, random)| *byte = *random);
    })
}

fn config(secrets: &str) -> AuthConfig {
    let config = AuthConfig::new(secrets.parse().expect("a list of secrets"), random());
    AuthConfig { groups: vec![Group::Null], ..config }
}

fn one_way() -> Arc<AuthConfig> {
    Arc::new(config(&format!("{HOST} {EXAMPLE}")))
}

fn both_ways() -> Arc<AuthConfig> {
    Arc::new(config(&format!("{HOST} {EXAMPLE} {SHA384}")))
}

fn controller(config: &Arc<AuthConfig>) -> ControllerAuth {
    ControllerAuth::new(config, HOST, SUBSYSTEM).expect("a secret of the host")
}

fn begin(config: &Arc<AuthConfig>) -> (Vec<u8>, AwaitChallenge) {
    AwaitChallenge::begin(config, HOST, SUBSYSTEM, 7).expect("a secret of the host")
}

fn receive(controller: &mut ControllerAuth) -> Vec<u8> {
    controller.auth_receive(4096).expect("a message")
}

/// A host that has sent its reply.
fn replied(controller: &mut ControllerAuth, config: &Arc<AuthConfig>) -> AwaitSuccess {
    let (negotiate, waits) = begin(config);
    controller.auth_send(&negotiate);
    let (reply, waits) = waits.take(&receive(controller)).expect("a challenge");
    controller.auth_send(&reply);
    waits
}

/// The whole exchange. Returns the controller's and the host's result.
fn authenticate(
    of_controller: &Arc<AuthConfig>,
    of_host: &Arc<AuthConfig>,
) -> (AuthState, Result<(), HostAuthError>) {
    let mut controller = controller(of_controller);
    let (negotiate, waits) = begin(of_host);
    controller.auth_send(&negotiate);
    let outcome = waits.take(&receive(&mut controller)).and_then(|(reply, waits)| {
        controller.auth_send(&reply);
        waits.take(&receive(&mut controller))
    });
    match &outcome {
        Ok(Some(success2)) => controller.auth_send(success2),
        Ok(None) | Err(HostAuthError::Refused(_)) => {}
        Err(HostAuthError::ControllerRejected { failure2, .. }) => controller.auth_send(failure2),
    }
    (controller.auth_state(), outcome.map(drop))
}

fn with(config: &AuthConfig, hash: Hash, group: Group) -> Arc<AuthConfig> {
    Arc::new(AuthConfig { hashes: vec![hash], groups: vec![group], ..config.clone() })
}

#[test]
fn both_sides_agree_with_every_hash_and_group_one_way_and_both_ways() {
    for group in Group::ALL {
        for hash in Hash::ALL {
            for config in [one_way(), both_ways()] {
                let config = with(&config, hash, group);
                let outcome = authenticate(&config, &config);
                assert_eq!(outcome, (AuthState::Authenticated, Ok(())), "{hash} {group}");
            }
        }
    }
}

#[test]
fn host_with_another_secret_is_refused() {
    let refused =
        (AuthState::Failed(Explanation::FAILED), Err(HostAuthError::Refused(Explanation::FAILED)));
    let other = Arc::new(config(&format!("{HOST} {SHA384}")));
    assert_eq!(authenticate(&one_way(), &other), refused);
    // A controller without a secret cannot answer a host that wants it to.
    assert_eq!(authenticate(&one_way(), &both_ways()), refused);
    // The key of the same bytes, transformed.
    let transformed = EXAMPLE.replace("DHHC-1:00", "DHHC-1:01");
    let transformed = Arc::new(config(&format!("{HOST} {transformed}")));
    assert_eq!(authenticate(&one_way(), &transformed), refused);
}

#[test]
fn host_refuses_a_controller_with_another_secret() {
    let other = Arc::new(config(&format!("{HOST} {EXAMPLE} {EXAMPLE}")));
    let (auth_state, outcome) = authenticate(&other, &both_ways());
    assert_eq!(auth_state, AuthState::Failed(Explanation::FAILED));
    let error = outcome.expect_err("another secret").to_string();
    assert_eq!(error, "the controller does not have its secret");
}

#[test]
fn host_that_requires_proof_refuses_a_controller_without() {
    let mut controller = controller(&both_ways());
    let waits = replied(&mut controller, &both_ways());
    let mut success1 = receive(&mut controller);
    // RVALID.
    success1[8] = 0;
    assert!(matches!(waits.take(&success1), Err(HostAuthError::ControllerRejected { .. })));
}

#[test]
fn controller_prefers_the_first_of_its_list_that_the_host_offers() {
    let all = AuthConfig { groups: Group::ALL.to_vec(), ..(*one_way()).clone() };
    for (ours, theirs, chosen) in [
        (vec![Hash::Sha512, Hash::Sha256], Hash::ALL.to_vec(), Ok(Hash::Sha512)),
        (Hash::ALL.to_vec(), vec![Hash::Sha384], Ok(Hash::Sha384)),
        (vec![Hash::Sha512], vec![Hash::Sha256], Err(Explanation::HASH)),
    ] {
        let with = |hashes| Arc::new(AuthConfig { hashes, ..all.clone() });
        let mut controller = controller(&with(ours));
        let (negotiate, waits) = begin(&with(theirs));
        controller.auth_send(&negotiate);
        let message = receive(&mut controller);
        match chosen {
            Ok(hash) => assert_eq!((message[8], message[9]), (hash as u8, 1), "{hash}, ffdhe2048"),
            Err(why) => {
                assert_eq!(waits.take(&message).err(), Some(HostAuthError::Refused(why)));
                assert_eq!(controller.auth_state(), AuthState::Failed(why));
            }
        }
    }
    let ours = with(&all, Hash::Sha256, Group::Ffdhe3072);
    let (_, outcome) = authenticate(&ours, &one_way());
    assert_eq!(outcome, Err(HostAuthError::Refused(Explanation::GROUP)));
}

#[test]
fn hosts_without_a_secret_do_not_start() {
    let other = "nqn.2026-11.org.example:other";
    assert!(ControllerAuth::new(&one_way(), other, SUBSYSTEM).is_none());
    assert!(AwaitChallenge::begin(&one_way(), other, SUBSYSTEM, 1).is_none());
}

/// A host may authenticate again, and stays authenticated meanwhile.
#[test]
fn failed_reauthentication_revokes_the_state() {
    let config = both_ways();
    let mut controller = controller(&config);
    for _ in 0..2 {
        let waits = replied(&mut controller, &config);
        let success2 = waits.take(&receive(&mut controller)).expect("a success");
        controller.auth_send(&success2.expect("both ways"));
        assert_eq!(controller.auth_state(), AuthState::Authenticated);
    }
    controller.auth_send(&begin(&config).0);
    receive(&mut controller);
    assert_eq!(controller.auth_state(), AuthState::Authenticated);
    controller.auth_send(Failure::new(MessageId::FAILURE2, 7, Explanation::FAILED).as_bytes());
    assert_eq!(controller.auth_state(), AuthState::Failed(Explanation::FAILED));
    controller.auth_send(&begin(&config).0);
    assert_eq!(controller.auth_state(), AuthState::Failed(Explanation::FAILED), "for good");
}

/// A controller in each of its states, and the host's next message if there is one. The controller
/// is challenged too, to have all states.
fn states() -> Vec<(&'static str, ControllerAuth, Vec<u8>)> {
    let config = both_ways();
    let (message, _) = begin(&config);
    let mut all = vec![("negotiate", controller(&config), message.clone())];
    let mut challenge = controller(&config);
    challenge.auth_send(&message);
    all.push(("challenge", challenge, Vec::new()));
    let (message, waits) = begin(&config);
    let mut reply = controller(&config);
    reply.auth_send(&message);
    let (message, _) = waits.take(&receive(&mut reply)).expect("a challenge");
    all.push(("reply", reply, message));
    let mut success1 = controller(&config);
    replied(&mut success1, &config);
    all.push(("success1", success1, Vec::new()));
    let mut success2 = controller(&config);
    let waits = replied(&mut success2, &config);
    let message = waits.take(&receive(&mut success2)).expect("a success").expect("both ways");
    all.push(("success2", success2, message.clone()));
    let mut done = controller(&config);
    replied(&mut done, &config);
    receive(&mut done);
    done.auth_send(&message);
    all.push(("done", done, Vec::new()));
    let mut failure1 = controller(&config);
    failure1.auth_send(&message);
    all.push(("failure1", failure1, Vec::new()));
    let mut failed = controller(&config);
    failed.auth_send(&message);
    receive(&mut failed);
    all.push(("failed", failed, Vec::new()));
    all
}

/// The message that the host can fetch next, or else its state.
fn next(controller: &mut ControllerAuth) -> &'static str {
    let before = controller.auth_state();
    let message = controller.auth_receive(4096);
    let id = message.map(|message| Header::read_from_prefix(&message).expect("a header").0);
    match (before, id.map(|header| header.message())) {
        (_, Some(MessageId::CHALLENGE)) => "challenge",
        (_, Some(MessageId::SUCCESS1)) => "success1",
        (_, Some(MessageId::FAILURE1)) => "failure1",
        (AuthState::Failed(_), None) => "failed",
        (AuthState::Authenticated, None) => "proved",
        (AuthState::Unauthenticated, None) => "unknown",
        other => panic!("{other:?}"),
    }
}

/// Fetching a message when there is none is a failure, so each cell has a controller of its own.
#[test]
fn every_message_in_every_state() {
    let head = |id, transaction| Header::new(id, transaction).as_bytes().to_vec();
    let success2 = |transaction| {
        let mut message = Success2::zeroed();
        message.header = Header::new(MessageId::SUCCESS2, transaction);
        message.as_bytes().to_vec()
    };
    let failure2 = Failure::new(MessageId::FAILURE2, 7, Explanation::HASH).as_bytes().to_vec();
    let messages: [(&str, Vec<u8>); 8] = [
        ("the right reply, where there is one", Vec::new()),
        ("negotiate", begin(&both_ways()).0),
        ("a reply of a header", head(MessageId::REPLY, 7)),
        ("success2", success2(7)),
        ("success2 of another transaction", success2(8)),
        ("failure2", failure2),
        ("a challenge", head(MessageId::CHALLENGE, 7)),
        ("three bytes", vec![0; 3]),
    ];
    // A row for each state, a column for each message, and one for a host that only fetches.
    const F1: &str = "failure1";
    const NO: &str = "failed";
    let table = [
        ("negotiate", [F1, "challenge", F1, F1, F1, NO, F1, F1], "unknown"),
        ("challenge", [F1, F1, F1, F1, F1, NO, F1, F1], "challenge"),
        ("reply", ["success1", F1, F1, F1, F1, NO, F1, F1], "unknown"),
        ("success1", [F1, F1, F1, F1, F1, NO, F1, F1], "success1"),
        ("success2", [F1, F1, F1, "proved", F1, NO, F1, F1], "unknown"),
        ("done", [F1, "challenge", F1, F1, F1, NO, F1, F1], "proved"),
        ("failure1", [NO, NO, NO, NO, NO, NO, NO, NO], "failure1"),
        ("failed", [NO, NO, NO, NO, NO, NO, NO, NO], "failed"),
    ];
    for (row, (name, outcomes, fetched)) in table.iter().enumerate() {
        for (column, (message, bytes)) in messages.iter().enumerate() {
            let (state, mut controller, right) = states().remove(row);
            assert_eq!(state, *name);
            let reply = if state == "reply" { right } else { head(MessageId::REPLY, 7) };
            controller.auth_send(if column == 0 { &reply } else { bytes });
            assert_eq!(next(&mut controller), outcomes[column], "{message} in {state}");
        }
        let (state, mut controller, _) = states().remove(row);
        assert_eq!(next(&mut controller), *fetched, "fetching in {state}");
    }
}

#[test]
fn message_longer_than_the_buffer_fails() {
    let config = one_way();
    let mut controller = controller(&config);
    controller.auth_send(&begin(&config).0);
    assert!(controller.auth_receive(47).is_none());
    assert_eq!(controller.auth_state(), AuthState::Failed(Explanation::PAYLOAD));
}

/// Bytes of a negotiation: the offset, the values, the reason of the failure.
#[test]
fn invalid_negotiation_fails_with_its_reason() {
    for (place, byte, why) in [
        (6, 1, Explanation::CONCATENATION),
        (7, 0, Explanation::NOT_USABLE),
        (8, 2, Explanation::NOT_USABLE),
        (10, 31, Explanation::PAYLOAD),
        (11, 31, Explanation::PAYLOAD),
        (10, 0, Explanation::HASH),
        (11, 0, Explanation::GROUP),
    ] {
        let mut controller = controller(&one_way());
        let (mut negotiate, _) = begin(&one_way());
        negotiate[place] = byte;
        controller.auth_send(&negotiate);
        receive(&mut controller);
        assert_eq!(controller.auth_state(), AuthState::Failed(why), "byte {place}");
    }
}

/// The response of a host by the formula of the specification; only the hash is the code under test.
#[test]
fn response_is_the_one_of_the_specification() {
    let config = one_way();
    let mut controller = controller(&config);
    let (negotiate, waits) = begin(&config);
    controller.auth_send(&negotiate);
    let challenge = receive(&mut controller);
    let (reply, _) = waits.take(&challenge).expect("a challenge");
    let key = EXAMPLE.parse::<Secret>().expect("a secret").key(HOST);
    let mut text = challenge[16..48].to_vec();
    text.extend_from_slice(&challenge[12..16]);
    text.extend_from_slice(&[7, 0, 0]);
    text.extend_from_slice(format!("HostHost{HOST}\0{SUBSYSTEM}").as_bytes());
    assert_eq!(reply[16..48], Hash::Sha256.hmac(&key, &[&text]));
    assert_eq!(reply[48..], [0; 32], "no challenge to the controller");
    assert_eq!(reply[..16], [1, 2, 0, 0, 7, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}

/// RFC 4231, test case 2.
#[test]
fn keyed_hashes_are_those_of_the_rfc() {
    let hmac = |hash: Hash| hash.hmac(b"Jefe", &[b"what do ya want ", b"for nothing?"]);
    assert_eq!(hmac(Hash::Sha256)[..4], [0x5b, 0xdc, 0xc1, 0x46]);
    assert_eq!(hmac(Hash::Sha384)[..4], [0xaf, 0x45, 0xd2, 0xe3]);
    assert_eq!(hmac(Hash::Sha512)[..4], [0x16, 0x4b, 0x7a, 0x7b]);
}

#[test]
fn secrets_of_other_programs_are_parsed() {
    let key = |text: &str| text.parse::<Secret>().expect("a secret").key(HOST).to_vec();
    let example = key(EXAMPLE);
    assert_eq!((example.len(), &example[..4]), (32, &[0x89, 0xae, 0xb3, 0x1a][..]));
    let untransformed = key(&SHA384.replace("DHHC-1:02", "DHHC-1:00"));
    let expected =
        Hash::Sha384.hmac(&untransformed, &[format!("{HOST}NVMe-over-Fabrics").as_bytes()]);
    assert_eq!(key(SHA384), expected);
    // A key of one length may have a transformation of another.
    assert_eq!(key(&EXAMPLE.replace("DHHC-1:00", "DHHC-1:03")).len(), 64);
    let wrong = |text: &str| text.parse::<Secret>().expect_err("no secret");
    for text in ["", "DHHC-1", "DHHC-1:04:ia6z:", "DHHC-2:00:ia6z:", &EXAMPLE[..50]] {
        assert_eq!(wrong(text), SecretError::Form, "{text}");
    }
    assert_eq!(wrong("DHHC-1:00:ia6?:"), SecretError::Base64);
    assert_eq!(wrong("DHHC-1:00::"), SecretError::Length(0));
    assert_eq!(wrong("DHHC-1:00:ia6zGodOr4SE:"), SecretError::Length(5));
    assert_eq!(wrong(&EXAMPLE.replace("ia6z", "ib6z")), SecretError::Checksum);
    assert_eq!(format!("{:?}", EXAMPLE.parse::<Secret>()), "Ok(Secret(..))");
}

#[test]
fn errors_in_lists_name_the_line_and_show_no_secret() {
    let list = format!("# hosts\n\n{HOST} {EXAMPLE}\n  nqn.b\t{EXAMPLE} {SHA384}  \n");
    let secrets: Secrets = list.parse().expect("a list");
    assert!(secrets.has(HOST) && secrets.has("nqn.b") && !secrets.has("nqn.c"));
    for (list, expected) in [
        ("# nobody".to_owned(), "no secret in it, expected lines of HOSTNQN SECRET"),
        (format!("\n{HOST}"), "line 2: found 1 words, expected HOSTNQN SECRET"),
        (format!("{EXAMPLE} {HOST}"), "line 1: found `a secret`, expected the NVMe Qualified"),
        (format!("host {EXAMPLE}"), "line 1: found `host`, expected the NVMe Qualified"),
        (format!("{HOST} {EXAMPLE}\n{HOST} {EXAMPLE}"), "line 2: nqn.2026-11.org.example:host has"),
        (format!("{HOST} DHHC-1:00:x"), "line 1: the host's secret: expected DHHC-1:hh:base64:"),
        (format!("{HOST} {EXAMPLE} {HOST}"), "line 1: the controller's secret: expected DHHC"),
    ] {
        let error = list.parse::<Secrets>().expect_err("a wrong list").to_string();
        assert!(error.starts_with(expected), "{error}");
        assert!(!error.contains("ia6z"), "{error}");
    }
}

/// Messages of a host: sent, or fetched into a buffer of this length.
fn messages() -> impl Strategy<Value = Vec<Result<Vec<u8>, usize>>> {
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..120),
        // The beginnings of messages, so that more than headers are looked at.
        (0_usize..3, prop::collection::vec(any::<u8>(), 0..120)).prop_map(|(kind, mut bytes)| {
            let begin =
                [[0, 0, 0, 0, 7, 0, 0, 1], [1, 2, 0, 0, 7, 0, 32, 0], [1, 4, 0, 0, 7, 0, 0, 0]];
            bytes.splice(..0, begin[kind]);
            bytes
        }),
        Just(begin(&both_ways()).0),
    ];
    let message = prop_oneof![bytes.prop_map(Ok), (0_usize..200).prop_map(Err)];
    prop::collection::vec(message, 0..12)
}

proptest! {
    #[test]
    fn whoever_does_not_know_the_secret_is_not_believed(messages in messages()) {
        let mut controller = controller(&both_ways());
        for message in messages {
            match message {
                Ok(bytes) => controller.auth_send(&bytes),
                Err(len) => drop(controller.auth_receive(len)),
            }
            prop_assert!(controller.auth_state() != AuthState::Authenticated);
        }
    }

    /// A reply's header, its lengths and the response; the rest is the host's own challenge.
    #[test]
    fn no_changed_reply_is_believed(place in 0_usize..48, change in 1_u8..) {
        prop_assume!(!matches!(place, 2 | 3 | 7..=9 | 12..16));
        let mut controller = controller(&one_way());
        let (negotiate, waits) = begin(&one_way());
        controller.auth_send(&negotiate);
        let (mut reply, waits) = waits.take(&receive(&mut controller)).expect("a challenge");
        reply[place] ^= change;
        controller.auth_send(&reply);
        let believed = controller.auth_receive(4096).is_some_and(|message| waits.take(&message).is_ok());
        prop_assert!(!believed, "byte {place}");
        prop_assert!(controller.auth_state() != AuthState::Authenticated);
    }

    #[test]
    fn no_text_makes_a_secret_panic(text in "(DHHC-1:0[0-4]:)?[A-Za-z0-9+/=:]{0,90}") {
        prop_assert!(text.parse::<Secret>().is_err());
    }
}
