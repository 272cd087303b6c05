package watchdog

import (
	"bytes"
	"encoding/base64"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// Secrets are the credentials of calls. A text must not hold one of them.
type Secrets struct {
	mu    sync.Mutex
	texts map[string]bool
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
		`(?i)(names?|namespace|ref|url|uri|server|host|endpoint|type|kind|method|mode|id|path|file|algorithm)$`)
	word = regexp.MustCompile(`^[a-z]*$`)
)

// Add adds the credentials in the content of a Target, unless the item with this text has them, too.
func (s *Secrets) Add(content, item []byte) {
	var document any
	if len(content) < minSecret {
		return
	}
	if err := yaml.Unmarshal(content, &document); err != nil {
		s.add(string(content), item)
		return
	}
	if text, ok := document.(string); ok {
		s.add(text, item)
		return
	}
	s.collect(document, false, item)
}

// collect adds the credentials in a document. secret reports whether a key around it is one of credentials.
func (s *Secrets) collect(document any, secret bool, item []byte) {
	switch value := document.(type) {
	case map[string]any:
		for key, inner := range value {
			_, isMap := inner.(map[string]any)
			plain := plainKey.MatchString(key) && !isMap
			s.collect(inner, (secret || secretKey.MatchString(key)) && !plain, item)
		}
	case []any:
		for _, inner := range value {
			s.collect(inner, secret, item)
		}
	case string:
		var inner map[string]any
		if strings.Contains(value, ":") && yaml.Unmarshal([]byte(value), &inner) == nil && len(inner) > 0 { // a kubeconfig
			s.collect(inner, secret, item)
		} else if secret {
			s.add(value, item)
		}
	}
}

// add adds a secret in all forms of it in texts.
func (s *Secrets) add(secret string, item []byte) {
	if len(secret) < minSecret || len(secret) < minWord && word.MatchString(secret) ||
		bytes.Contains(item, []byte(secret)) {
		return
	}
	forms := []string{secret, strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret)), "=")}
	if decoded, err := base64.StdEncoding.DecodeString(secret); err == nil && utf8.Valid(decoded) {
		forms = append(forms, lines(string(decoded))...)
	}
	s.Note(append(forms, lines(secret)...)...)
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

// Note adds secret texts.
func (s *Secrets) Note(texts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.texts == nil {
		s.texts = map[string]bool{}
	}
	for _, text := range texts {
		s.texts[text] = true
	}
}

// In reports whether a text has one of the secrets.
func (s *Secrets) In(text []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for secret := range s.texts {
		if bytes.Contains(text, []byte(secret)) {
			return true
		}
	}
	return false
}
