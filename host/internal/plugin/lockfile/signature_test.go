package lockfile_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"aead.dev/minisign"

	"github.com/pergola-deploy/pergola/host/internal/plugin/lockfile"
)

// pair returns a new pair of keys.
func pair(t *testing.T) (lockfile.PublicKey, minisign.PrivateKey) {
	t.Helper()
	public, private, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, public.String()), private
}

func parsed(t *testing.T, text string) lockfile.PublicKey {
	t.Helper()
	key, err := lockfile.ParsePublicKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// signHashed signs as minisign does, and minisign.Sign as its older versions did.
func signHashed(t *testing.T, key minisign.PrivateKey, text []byte) []byte {
	t.Helper()
	reader := minisign.NewReader(bytes.NewReader(text))
	if _, err := new(bytes.Buffer).ReadFrom(reader); err != nil {
		t.Fatal(err)
	}
	return reader.Sign(key)
}

func TestLoad(t *testing.T) {
	t.Parallel()
	public, private := pair(t)
	second, _ := pair(t)
	_, stranger := pair(t)
	text := []byte(golden)
	hashed, plain := signHashed(t, private, text), minisign.Sign(private, text)
	changed := bytes.Replace(text, []byte("v1.2.3"), []byte("v1.2.4"), 1)
	comment := bytes.Replace(hashed, []byte("timestamp:"), []byte("timestamp:1"), 1)
	untrusted := bytes.Replace(hashed, []byte("signature from"), []byte("another word"), 1)
	keys := []lockfile.PublicKey{public}

	tests := map[string]struct {
		reason          string
		text, signature []byte // without the latter there is no such file
		keys            []lockfile.PublicKey
		sentinel        error
		want            []string // parts of the error
	}{
		"hashed":     {reason: "what minisign makes", text: text, signature: hashed, keys: keys},
		"plain":      {reason: "what older versions made", text: text, signature: plain, keys: keys},
		"second key": {reason: "keys are exchanged one after the other", text: text, signature: hashed, keys: []lockfile.PublicKey{second, public}},
		"untrusted comment": {
			reason: "it says nothing that anybody relies on", text: text, signature: untrusted, keys: keys,
		},
		"no keys":                      {reason: "nobody asked for a signature", text: text},
		"no keys, but a signature":     {reason: "nobody looks at it", text: text, signature: []byte("rubbish")},
		"empty keys":                   {reason: "none is none", text: text, keys: []lockfile.PublicKey{}},
		"unsigned":                     {"who removes the signature gains nothing", text, nil, keys, lockfile.ErrUnsigned, []string{"plugins.lock is not signed", "plugins.lock.minisig is missing", "minisign -Sm "}},
		"changed text":                 {"whoever changes it needs the key", changed, hashed, keys, lockfile.ErrWrongSignature, []string{"plugins.lock.minisig", "not that of the text", "minisign -Sm "}},
		"changed text, second key":     {"the key that is known is not the last", changed, hashed, []lockfile.PublicKey{public, second}, lockfile.ErrWrongSignature, []string{"not that of the text"}},
		"changed text, plain":          {"whoever changes it needs the key", changed, plain, keys, lockfile.ErrWrongSignature, []string{"not that of the text"}},
		"appended text":                {"all of it is signed", append(bytes.Clone(text), '\n'), hashed, keys, lockfile.ErrWrongSignature, []string{"not that of the text"}},
		"changed comment":              {"the trusted one is signed, too", text, comment, keys, lockfile.ErrWrongSignature, []string{"not that of the text"}},
		"stranger":                     {"anybody can sign", text, signHashed(t, stranger, text), keys, lockfile.ErrWrongSignature, []string{"made with the key", "but the host trusts"}},
		"zero key":                     {"a key that was forgotten is none", text, hashed, []lockfile.PublicKey{{}}, lockfile.ErrWrongSignature, []string{"made with the key"}},
		"empty signature":              {"no signature", text, []byte{}, keys, lockfile.ErrWrongSignature, []string{"was not made by minisign"}},
		"rubbish":                      {"no signature", text, []byte("rubbish"), keys, lockfile.ErrWrongSignature, []string{"was not made by minisign"}},
		"half a signature":             {"no signature", text, hashed[:len(hashed)/2], keys, lockfile.ErrWrongSignature, []string{"was not made by minisign"}},
		"wrong content, and unsigned":  {"what nobody signed is not read", []byte("{}"), nil, keys, lockfile.ErrUnsigned, nil},
		"signature of something else":  {"a signed checksum is no signed lock file", []byte("{}"), hashed, keys, lockfile.ErrWrongSignature, nil},
		"huge signature":               {"a bound", text, make([]byte, 1<<20+1), keys, nil, []string{"plugins.lock.minisig is larger than 1048576 bytes"}},
		"huge text":                    {"a bound", bytes.Repeat([]byte("#"), 1<<20+1), hashed, keys, nil, []string{"plugins.lock is larger than 1048576 bytes"}},
		"wrong content, but signed":    {"signed nonsense is nonsense", []byte("{}"), signHashed(t, private, []byte("{}")), keys, nil, []string{"plugins: is missing"}},
		"wrong content, without a key": {"the same", []byte("{}"), nil, nil, nil, []string{"plugins: is missing"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "plugins.lock")
			put(t, path, test.text)
			if test.signature != nil {
				put(t, path+".minisig", test.signature)
			}
			file, err := lockfile.Load(path, test.keys)
			if ok := test.sentinel == nil && test.want == nil; (err == nil) != ok || (file != nil) != ok {
				t.Fatalf("%s: expected it to be loaded: %t, but found: %v", test.reason, ok, err)
			}
			for _, sentinel := range []error{lockfile.ErrUnsigned, lockfile.ErrWrongSignature} {
				if errors.Is(err, sentinel) != (sentinel == test.sentinel) { //nolint:errorlint // which one is meant is what this is about
					t.Errorf("%s: expected %v, but found: %v", test.reason, test.sentinel, err)
				}
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: expected %q, but found: %v", test.reason, want, err)
				}
			}
			if err == nil && len(file.Plugins()) != 2 {
				t.Errorf("%s: expected both plugins, but found %v", test.reason, file.Plugins())
			}
		})
	}
}

func put(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Keys and signatures that the tool itself made: minisign -G, minisign -Sm signed.lock, and the same with -l for the older form.
func TestLoadWhatMinisignSigned(t *testing.T) {
	t.Parallel()
	public, err := os.ReadFile("testdata/minisign.pub")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/signed.lock")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"signed.lock.minisig", "signed.lock.legacy.minisig"} {
		signature, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "plugins.lock")
		put(t, path, text)
		put(t, path+".minisig", signature)
		if _, err := lockfile.Load(path, []lockfile.PublicKey{parsed(t, string(public))}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		put(t, path, bytes.Replace(text, []byte("this"), []byte("that"), 1))
		if _, err := lockfile.Load(path, []lockfile.PublicKey{parsed(t, string(public))}); !errors.Is(err, lockfile.ErrWrongSignature) {
			t.Errorf("%s: expected it to be that of another text, but found: %v", name, err)
		}
	}
}

// Whatever one byte of text or signature becomes, the lock file is refused, unless it is in the comment that nobody relies on.
func TestLoadAfterAnyChange(t *testing.T) {
	t.Parallel()
	public, private := pair(t)
	text := []byte(golden)
	signature := signHashed(t, private, text)
	path := filepath.Join(t.TempDir(), "plugins.lock")
	put(t, path+".minisig", signature)
	for i := range text {
		changed := bytes.Clone(text)
		changed[i] ^= 1
		put(t, path, changed)
		if _, err := lockfile.Load(path, []lockfile.PublicKey{public}); !errors.Is(err, lockfile.ErrWrongSignature) {
			t.Fatalf("expected a change of byte %d of the text to be found, but found: %v", i, err)
		}
	}
	put(t, path, text)
	for i := bytes.IndexByte(signature, '\n') + 1; i < len(signature)-1; i++ { // the last byte ends a line
		changed := bytes.Clone(signature)
		changed[i] = changed[i]&^0x1f | (changed[i]+1)&0x1f // mostly a letter of base64 still
		put(t, path+".minisig", changed)
		_, err := lockfile.Load(path, []lockfile.PublicKey{public})
		if !errors.Is(err, lockfile.ErrWrongSignature) && !sameBase64(signature, changed) {
			t.Fatalf("expected a change of byte %d of the signature to be found, but found: %v", i, err)
		}
	}
}

// sameBase64 tells whether two signatures differ only in bits that base64 pads with.
func sameBase64(a, b []byte) bool {
	var first, second minisign.Signature
	return first.UnmarshalText(a) == nil && second.UnmarshalText(b) == nil && first.Equal(second)
}

func TestLoadNeverWaits(t *testing.T) {
	t.Parallel()
	public, _ := pair(t)
	dir := t.TempDir()
	pipe, directory, missing := filepath.Join(dir, "pipe"), filepath.Join(dir, "dir"), filepath.Join(dir, "missing")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Mkdir(directory, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, directory} {
		if _, err := lockfile.Load(path, nil); err == nil || !strings.Contains(err.Error(), path+" is no regular file") {
			t.Errorf("expected %s to be refused, but found: %v", path, err)
		}
	}
	if _, err := lockfile.Load(missing, []lockfile.PublicKey{public}); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, lockfile.ErrUnsigned) {
		t.Errorf("expected the lock file to be missing, but found: %v", err)
	}
	path := filepath.Join(dir, "plugins.lock")
	put(t, path, []byte(golden))
	if err := syscall.Mkfifo(path+".minisig", 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := lockfile.Load(path, []lockfile.PublicKey{public}); err == nil || !strings.Contains(err.Error(), ".minisig is no regular file") {
		t.Errorf("expected the signature to be refused, but found: %v", err)
	}
}

func TestParsePublicKey(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("testdata/minisign.pub")
	if err != nil {
		t.Fatal(err)
	}
	const line = "RWTHzWTEqX8VXjsR0+PsQe0VAPR1kXEZJOinw/HmjtbCVxOUeQdKlUj9"
	tests := map[string]struct {
		reason, text string
		ok           bool
	}{
		"line":        {"as minisign prints it", line, true},
		"file":        {"as minisign writes it", string(file), true},
		"spaces":      {"as it is copied from a terminal", "  " + line + "\r\n", true},
		"empty":       {"no key", "", false},
		"comment":     {"the first line of the file", "untrusted comment: minisign public key 5E157FA9C464CDC7", false},
		"truncated":   {"a line that was not copied to its end", line[:len(line)-4], false},
		"longer":      {"two lines in one", line + line, false},
		"no base64":   {"a slip", "!" + line[1:], false},
		"algorithm":   {"keys of another kind", "AA" + line[2:], false},
		"private key": {"the wrong file", "untrusted comment: minisign encrypted secret key\n" + strings.Repeat("UldRVF", 35), false},
		"signature":   {"the wrong file", "untrusted comment: signature\n" + line + "\ntrusted comment: none\n" + line, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, err := lockfile.ParsePublicKey(test.text)
			want := ""
			if test.ok {
				want = line
			}
			if (err == nil) != test.ok || key.String() != want {
				t.Errorf("%s: expected %q, but found %q, %v", test.reason, want, key, err)
			}
			if err != nil && test.text != "" && strings.Contains(err.Error(), strings.Fields(test.text)[0]) {
				t.Errorf("%s: expected no part of what may be the private key, but found: %v", test.reason, err)
			}
		})
	}
}
