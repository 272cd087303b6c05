package lockfile

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"aead.dev/minisign"
)

var (
	// ErrUnsigned is wrapped by the error about a lock file that has no signature, although public keys are configured.
	ErrUnsigned = errors.New("is not signed")
	// ErrWrongSignature is wrapped by the error about a signature that is none, is by another key, or is that of another text.
	ErrWrongSignature = errors.New("is not valid")
	// ErrExposed is wrapped by the error about a lock file that somebody else may write, although no public keys are configured.
	ErrExposed = errors.New("may be written by others")
)

// PublicKey is a public key of minisign. The zero value verifies nothing.
type PublicKey struct {
	key *minisign.PublicKey
}

// ParsePublicKey reads a public key as minisign writes it: the whole file, or the one line of it that starts with RW.
func ParsePublicKey(text string) (PublicKey, error) {
	key := new(minisign.PublicKey)
	if err := key.UnmarshalText([]byte(strings.TrimSpace(text))); err != nil {
		// What was found is not repeated: it may be the private key.
		return PublicKey{}, fmt.Errorf("expected a public key of minisign, such as the line that starts with RW in the file minisign.pub: %w", err)
	}
	return PublicKey{key: key}, nil
}

// String returns the key in the form of one line, and nothing for the zero value.
func (k PublicKey) String() string {
	if k.key == nil {
		return ""
	}
	return k.key.String()
}

// Load reads the lock file at a path. If there are keys, its signature must lie beside it, at the path with ".minisig" appended, and be
// that of one of the keys: otherwise the error wraps ErrUnsigned or ErrWrongSignature. Without keys nobody looks for a signature, and so
// nobody but root and the user of this process may be able to write the file: otherwise the error wraps ErrExposed. If the content is
// wrong the error is an *Error.
func Load(path string, keys []PublicKey) (*File, error) {
	trust := anybody
	if len(keys) == 0 {
		trust = onlyUs
	}
	text, err := read(path, trust)
	if err != nil {
		return nil, fmt.Errorf("read lock file: %w", err)
	}
	if len(keys) > 0 {
		if err := checkSignature(path, text, keys); err != nil {
			return nil, err
		}
	}
	return Parse(path, text)
}

func checkSignature(path string, text []byte, keys []PublicKey) error {
	signaturePath := path + ".minisig"
	signature, err := read(signaturePath, anybody)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the lock file %s %w, but the host has public keys: %s is missing; sign it with minisign -Sm %s",
			path, ErrUnsigned, signaturePath, path)
	}
	if err != nil {
		return fmt.Errorf("read signature of the lock file: %w", err)
	}
	if err := verify(text, signature, keys); err != nil {
		return fmt.Errorf("the signature %s of the lock file %w; look at what was changed, and sign it with minisign -Sm %s if that is meant",
			signaturePath, err, path)
	}
	return nil
}

// verify says why a signature is not that of a text by one of the keys. It may be of the text or of its hash: minisign
// makes the latter, and its older versions the former.
func verify(text, signature []byte, keys []PublicKey) error {
	var parsed minisign.Signature
	if err := parsed.UnmarshalText(signature); err != nil {
		return fmt.Errorf("%w: it was not made by minisign, or was changed: %w", ErrWrongSignature, err)
	}
	known := false
	ids := make([]string, 0, len(keys))
	for _, k := range keys {
		if k.key == nil {
			continue
		}
		if minisign.Verify(*k.key, text, signature) {
			return nil
		}
		known = known || k.key.ID() == parsed.KeyID
		ids = append(ids, fmt.Sprintf("%X", k.key.ID()))
	}
	if !known {
		return fmt.Errorf("%w: it was made with the key %X, but the host trusts %s", ErrWrongSignature, parsed.KeyID, strings.Join(ids, ", "))
	}
	return fmt.Errorf("%w: it is not that of the text; one of the two was changed", ErrWrongSignature)
}
