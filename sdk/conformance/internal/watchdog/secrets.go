package watchdog

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// Secrets are the credentials of calls. A text must not hold one of them.
type Secrets struct {
	mu    sync.Mutex
	texts map[string]string // the key of each
}

const (
	// minSecret bounds secrets below: a shorter one may be in a text by chance. One of lower-case letters is long.
	minSecret, minWord = 8, 16
	// minLine bounds the lines of a secret of several.
	minLine = 24
)

var (
	secretKey = regexp.MustCompile(
		`(?i)token|passw|secret|credential|private|api.?key|access.?key|client.?key|bearer|^key$|^auth`)
	// plainKey is the key of a value beside credentials.
	plainKey = regexp.MustCompile(
		`(?i)(names?|namespace|ref|url|uri|server|host|endpoint|type|kind|method|mode|id|path|file|algorithm|` +
			`domain|mail|regions?|zones?|tenant|scopes?|realm|audience|issuer|account|project|organi[sz]ation|` +
			`expiry|expires|expiration|lifetime|ttl|period|version)$`)
	word = regexp.MustCompile(`^[a-z]*$`)
)

// Add adds the credentials in the content of a Target, unless the item with this text has them, too.
func (s *Secrets) Add(content, item []byte) {
	var document any
	if len(content) < minSecret {
		return
	}
	if err := yaml.Unmarshal(content, &document); err != nil {
		s.add("", string(content), item)
		return
	}
	if text, ok := document.(string); ok {
		s.add("", text, item)
		return
	}
	s.collect(document, "", false, item)
}

// collect adds the credentials in a document, the value of this key. secret reports whether the key, or one around it,
// is one of credentials. That holds for all values inside, unless the key of one of them says which is the secret.
func (s *Secrets) collect(document any, key string, secret bool, item []byte) {
	switch value := document.(type) {
	case map[string]any:
		for inner, nested := range value {
			secret = secret && !isSecret(inner, nested)
		}
		for inner, nested := range value {
			s.collect(nested, inner, isSecret(inner, nested) || secret && !isPlain(inner, nested), item)
		}
	case []any:
		for _, inner := range value {
			s.collect(inner, key, secret, item)
		}
	case string:
		var inner map[string]any
		if strings.Contains(value, ":") && yaml.Unmarshal([]byte(value), &inner) == nil && len(inner) > 0 { // a kubeconfig
			s.collect(inner, key, secret, item)
		} else if secret {
			s.add(key, value, item)
		}
	}
}

// isPlain reports whether a key is one of a value beside credentials.
func isPlain(key string, value any) bool {
	_, isMap := value.(map[string]any)
	return plainKey.MatchString(key) && !isMap
}

func isSecret(key string, value any) bool { return secretKey.MatchString(key) && !isPlain(key, value) }

// add adds the secret of a key, in all forms of it in texts.
func (s *Secrets) add(key, secret string, item []byte) {
	if len(secret) < minSecret || len(secret) < minWord && word.MatchString(secret) ||
		bytes.Contains(item, []byte(secret)) {
		return
	}
	forms := []string{secret, strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret)), "=")}
	if decoded, err := base64.StdEncoding.DecodeString(secret); err == nil && utf8.Valid(decoded) {
		forms = append(forms, lines(string(decoded))...)
	}
	s.Note(key, append(forms, lines(secret)...)...)
}

// lines returns the long lines of a text of several, such as a private key.
func lines(text string) (long []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if len(line) >= minLine && len(line) < len(text) && !strings.HasPrefix(line, "-----") {
			long = append(long, line)
		}
	}
	return long
}

// Note adds secret texts. The key is where they come from; empty for none.
func (s *Secrets) Note(key string, texts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.texts == nil {
		s.texts = map[string]string{}
	}
	for _, text := range texts {
		s.texts[text] = key
	}
}

// In reports whether a text has one of the secrets, and names its key for a message.
func (s *Secrets) In(text []byte) (which string, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for secret, key := range s.texts {
		if bytes.Contains(text, []byte(secret)) {
			if key != "" {
				which = fmt.Sprintf(" (of the key %.100q)", key)
			}
			return which, true
		}
	}
	return "", false
}
