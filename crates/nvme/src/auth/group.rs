//! Diffie-Hellman groups: the finite fields of RFC 7919, and none.
use super::Random;
use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd};
use std::fmt;
use std::str::FromStr;
use zeroize::Zeroizing;

/// A group, by its identifier (Base section 8.13, DHgID).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Group {
    /// NULL: no Diffie-Hellman exchange.
    Null = 0,
    /// ffdhe: a prime of 2048 bits.
    Ffdhe2048 = 1,
    /// ffdhe: a prime of 3072 bits.
    Ffdhe3072 = 2,
    /// ffdhe: a prime of 4096 bits.
    Ffdhe4096 = 3,
    /// ffdhe: a prime of 6144 bits.
    Ffdhe6144 = 4,
    /// ffdhe: a prime of 8192 bits.
    Ffdhe8192 = 5,
}

/// Bits of a private exponent: more than RFC 7919 requires for the largest group (400).
const EXPONENT_BITS: u32 = 512;

impl Group {
    /// All groups: those with an exchange, the shortest first, then NULL.
    pub const ALL: [Group; 6] = [
        Group::Ffdhe2048,
        Group::Ffdhe3072,
        Group::Ffdhe4096,
        Group::Ffdhe6144,
        Group::Ffdhe8192,
        Group::Null,
    ];

    /// The value with this identifier.
    pub fn from_id(id: u8) -> Option<Self> {
        Group::ALL.into_iter().find(|group| *group as u8 == id)
    }

    /// Bytes of the prime and of the values exchanged; 0 for NULL.
    pub const fn size(self) -> u16 {
        match self {
            Group::Null => 0,
            Group::Ffdhe2048 => 256,
            Group::Ffdhe3072 => 384,
            Group::Ffdhe4096 => 512,
            Group::Ffdhe6144 => 768,
            Group::Ffdhe8192 => 1024,
        }
    }

    fn bits(self) -> u32 {
        u32::from(self.size()) * 8
    }

    /// The prime, big endian (RFC 7919 appendix A): for b bits and the group's X,
    /// 2^b - 2^(b-64) + (floor(2^(b-130) e) + X) 2^64 - 1, which is 64 ones, the first b - 128 bits
    /// of e plus X - 1, and 64 ones. Empty for NULL.
    pub fn prime(self) -> Vec<u8> {
        let x: u32 = match self {
            Group::Null => return Vec::new(),
            Group::Ffdhe2048 => 560_316,
            Group::Ffdhe3072 => 2_625_351,
            Group::Ffdhe4096 => 5_736_041,
            Group::Ffdhe6144 => 15_705_020,
            Group::Ffdhe8192 => 10_965_728,
        };
        let digits = &E[..usize::from(self.size() - 16) * 2];
        let middle = BoxedUint::from_be_hex(digits, self.bits() - 128).expect("hex digits");
        let middle = middle.wrapping_add(BoxedUint::from(x - 1));
        [&[0xff; 8][..], &middle.to_be_bytes(), &[0xff; 8]].concat()
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Group::Null => f.write_str("null"),
            group => write!(f, "ffdhe{}", group.bits()),
        }
    }
}

impl FromStr for Group {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Group::ALL.into_iter().find(|group| group.to_string() == name);
        found.ok_or_else(|| {
            format!("found `{name}`, expected null or ffdhe2048, 3072, 4096, 6144 or 8192")
        })
    }
}

/// One side's key pair.
pub struct KeyPair {
    group: Group,
    params: BoxedMontyParams,
    exponent: Zeroizing<Vec<u8>>,
    /// The public value: as long as the prime, big endian.
    pub public: Vec<u8>,
}

impl KeyPair {
    /// A new key pair. `None` if the group has no exchange.
    pub fn new(group: Group, random: &Random) -> Option<Self> {
        if group == Group::Null {
            return None;
        }
        let mut exponent = Zeroizing::new(vec![0; EXPONENT_BITS as usize / 8]);
        random(&mut exponent);
        let prime = BoxedUint::from_be_slice(&group.prime(), group.bits()).expect("its bits");
        let params = BoxedMontyParams::new(Odd::new(prime).expect("primes above 2 are odd"));
        let mut pair = KeyPair { group, params, exponent, public: Vec::new() };
        // The generator of these groups is 2.
        let mut generator = vec![0; usize::from(group.size())];
        generator[usize::from(group.size()) - 1] = 2;
        pair.public = pair.power(&generator).to_vec();
        Some(pair)
    }

    fn power(&self, base: &[u8]) -> Zeroizing<Vec<u8>> {
        let number = |bytes: &[u8], bits| BoxedUint::from_be_slice(bytes, bits).expect("its bits");
        let base = BoxedMontyForm::new(number(base, self.group.bits()), &self.params);
        let exponent = Zeroizing::new(number(&self.exponent, EXPONENT_BITS));
        let power = Zeroizing::new(base.pow(&exponent).retrieve());
        Zeroizing::new(power.to_be_bytes().into_vec())
    }

    /// The shared secret, as long as the prime. `None` if the other side's value is invalid: of
    /// another length, or not above 1 and below p - 1 (RFC 7919 section 5.1).
    pub fn shared(&self, theirs: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let prime = self.group.prime();
        if theirs.len() != prime.len() {
            return None;
        }
        // Big endian numbers of equal length compare like their bytes. Both are public.
        let (last, rest) = theirs.split_last()?;
        let above_one = *last > 1 || rest.iter().any(|&byte| byte > 0);
        let mut most = prime;
        *most.last_mut()? -= 1;
        (above_one && theirs < &most[..]).then(|| self.power(theirs))
    }
}

/// The digits of e, 2.718..., from its first two bits on: the 8064 bits that the largest prime has.
const E: &str = "\
    adf85458a2bb4a9aafdc5620273d3cf1d8b9c583ce2d3695a9e13641146433fbcc939dce249b3ef97d2fe363630c\
    75d8f681b202aec4617ad3df1ed5d5fd65612433f51f5f066ed0856365553ded1af3b557135e7f57c935984f0c70\
    e0e68b77e2a689daf3efe8721df158a136ade73530acca4f483a797abc0ab182b324fb61d108a94bb2c8e3fbb96a\
    dab760d7f4681d4f42a3de394df4ae56ede76372bb190b07a7c8ee0a6d709e02fce1cdf7e2ecc03404cd28342f61\
    9172fe9ce98583ff8e4f1232eef28183c3fe3b1b4c6fad733bb5fcbc2ec22005c58ef1837d1683b2c6f34a26c1b2\
    effa886b4238611fcfdcde355b3b6519035bbc34f4def99c023861b46fc9d6e6c9077ad91d2691f7f7ee598cb0fa\
    c186d91caefe130985139270b4130c93bc437944f4fd4452e2d74dd364f2e21e71f54bff5cae82ab9c9df69ee86d\
    2bc522363a0dabc521979b0deada1dbf9a42d5c4484e0abcd06bfa53ddef3c1b20ee3fd59d7c25e41d2b669e1ef1\
    6e6f52c3164df4fb7930e9e4e58857b6ac7d5f42d69f6d187763cf1d5503400487f55ba57e31cc7a7135c886efb4\
    318aed6a1e012d9e6832a907600a918130c46dc778f971ad0038092999a333cb8b7a1a1db93d7140003c2a4ecea9\
    f98d0acc0a8291cdcec97dcf8ec9b55a7f88a46b4db5a851f44182e1c68a007e5e0dd9020bfd64b645036c7a4e67\
    7d2c38532a3a23ba4442caf53ea63bb454329b7624c8917bdd64b1c0fd4cb38e8c334c701c3acdad0657fccfec71\
    9b1f5c3e4e46041f388147fb4cfdb477a52471f7a9a96910b855322edb6340d8a00ef092350511e30abec1fff9e3\
    a26e7fb29f8c183023c3587e38da0077d9b4763e4e4b94b2bbc194c6651e77caf992eeaac0232a281bf6b3a739c1\
    226116820ae8db5847a67cbef9c9091b462d538cd72b03746ae77f5e62292c311562a846505dc82db854338ae49f\
    5235c95b91178ccf2dd5cacef403ec9d1810c6272b045b3b71f9dc6b80d63fdd4a8e9adb1e6962a69526d43161c1\
    a41d570d7938dad4a40e329ccff46aaa36ad004cf600c8381e425a31d951ae64fdb23fcec9509d43687feb69edd1\
    cc5e0b8cc3bdf64b10ef86b63142a3ab8829555b2f747c932665cb2c0f1cc01bd70229388839d2af05e454504ac7\
    8b7582822846c0ba35c35f5c59160cc046fd8251541fc68c9c86b022bb7099876a460e7451a8a93109703fee1c21\
    7e6c3826e52c51aa691e0e423cfc99e9e31650c1217b624816cdad9a95f9d5b8019488d9c0a0a1fe3075a577e231\
    83f81d4a3f2fa4571efc8ce0ba8a4fe8b6855dfe72b0a66eded2fbabfbe58a30fafabe1c5d71a87e2f741ef8c1fe\
    86fea6bbfde530677f0d97d11d49f7a8443d0822e506a9f4614e011e2a94838ff88cd68c8bb7c51eef6d";

#[cfg(test)]
mod tests {
    use super::*;
    use crypto_bigint::Resize;
    use std::sync::Arc;

    /// e by its series, in units of 2^-8062, with 64 more bits against rounding.
    fn e() -> BoxedUint {
        let mut term = BoxedUint::one_with_precision(8192).shl(8062 + 64);
        let mut sum = BoxedUint::zero_with_precision(8192);
        let mut divisor: u64 = 1;
        while term.is_nonzero().to_bool() {
            sum = sum.wrapping_add(&term);
            let by = BoxedUint::from(divisor).to_nz().expect("counts from 1");
            term = term.div_rem(&by).0.resize(8192);
            divisor += 1;
        }
        sum.shr(64)
    }

    #[test]
    fn digits_are_those_of_e() {
        let digits = BoxedUint::from_be_hex(E, 8064).expect("hex digits");
        assert_eq!(digits.resize(8192), e());
    }

    /// The last digits before the ones, as RFC 7919 prints them.
    #[test]
    fn primes_end_as_the_rfc_has_them() {
        for (group, end) in [
            (Group::Ffdhe2048, 0x886b_4238_6128_5c97_u64),
            (Group::Ffdhe3072, 0x25e4_1d2b_66c6_2e37),
            (Group::Ffdhe4096, 0xc68a_007e_5e65_5f6a),
            (Group::Ffdhe6144, 0xa40e_329c_d0e4_0e65),
            (Group::Ffdhe8192, 0xd68c_8bb7_c5c6_424c),
        ] {
            let prime = group.prime();
            assert_eq!(prime.len(), usize::from(group.size()));
            let end = [end.to_be_bytes(), [0xff; 8]].concat();
            assert!(prime.ends_with(&end), "{group}");
            assert!(prime.starts_with(b"\xff\xff\xff\xff\xff\xff\xff\xff\xad\xf8\x54\x58"));
        }
    }

    #[test]
    fn both_sides_come_to_the_same_secret() {
        let from = |byte: u8| -> Random { Arc::new(move |bytes: &mut [u8]| bytes.fill(byte)) };
        for group in Group::ALL {
            let Some(ours) = KeyPair::new(group, &from(0x5a)) else {
                assert_eq!(group, Group::Null);
                continue;
            };
            let theirs = KeyPair::new(group, &from(0xc3)).expect("a group");
            let secret = ours.shared(&theirs.public).expect("a value of the group");
            assert_eq!(secret, theirs.shared(&ours.public).expect("a value of the group"));
            assert_eq!(secret.len(), usize::from(group.size()));
            assert_ne!(ours.public, theirs.public);
        }
    }

    #[test]
    fn values_that_give_the_secret_away_are_refused() {
        let random: Random = Arc::new(|bytes: &mut [u8]| bytes.fill(1));
        let pair = KeyPair::new(Group::Ffdhe2048, &random).expect("a group");
        let small = |last: u8| [&[0; 255][..], &[last]].concat();
        let below = |less: u8| {
            let mut prime = Group::Ffdhe2048.prime();
            prime[255] -= less;
            prime
        };
        for refused in [small(0), small(1), below(0), below(1), vec![0xff; 256], vec![2; 255]] {
            assert!(pair.shared(&refused).is_none(), "{refused:x?}");
        }
        for taken in [small(2), below(2)] {
            assert!(pair.shared(&taken).is_some());
        }
    }
}
