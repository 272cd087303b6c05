// Package redact keeps secrets out of texts for users, such as those of a Target or a provider configuration out of the
// errors of a library that quotes what it is given.
package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

const (
	// shortest is the least length of a hidden value; a shorter one would be found in every other word.
	shortest = 4
	// alone is the least length of a value hidden even within a word.
	alone = 8
	// maxDigits is the greatest length of a shown number: ports and counts, but no passwords.
	maxDigits = 5
	// escapable is the greatest length of a value with all spellings hidden; no URL and no message of a container holds
	// more.
	escapable = 16 << 10
	hidden    = "***"
)

// Redactor hides values in texts. Its methods may be called at any time, from any goroutine. Hidden are
//
//   - strings of the values, and the lines of those with several,
//   - these strings as Go quotes them and in base64 and, up to 16 KiB of length, as in JSON, URLs and the other kinds
//     of base64,
//   - numbers of the values with more than five digits: a password without quotes is one,
//   - the content of learned Secrets, in base64 or not,
//   - the known quotes of libraries.
//
// Strings of up to three bytes are not hidden, and those of up to seven only as words of their own. Public texts are
// shown although they are also a value, or hold one: names, namespaces and kinds of objects, the names of fields, the
// usual words of messages, and those of Publish. A message without them would be useless.
type Redactor struct {
	mu             sync.Mutex
	values, public texts
}

var spaces = regexp.MustCompile(`\s+`)

// texts are found by their first bytes; the longest come first.
type texts struct {
	known  map[string]struct{}
	begin  map[string][]string
	sorted bool
}

func (t *texts) add(text string) {
	if _, ok := t.known[text]; ok || len(text) < shortest {
		return
	}
	if t.known == nil {
		t.known, t.begin = map[string]struct{}{}, map[string][]string{}
	}
	t.known[text] = struct{}{}
	t.begin[text[:shortest]] = append(t.begin[text[:shortest]], text)
	t.sorted = false
}

func (t *texts) sort() {
	if t.sorted {
		return
	}
	for _, all := range t.begin {
		slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	}
	t.sorted = true
}

// at returns the length of the longest text at i for which counts returns true; 0 for none.
func (t *texts) at(text string, i int, counts func(found string) bool) int {
	if len(text)-i < shortest {
		return 0
	}
	for _, found := range t.begin[text[i:i+shortest]] {
		if strings.HasPrefix(text[i:], found) && counts(found) {
			return len(found)
		}
	}
	return 0
}

// words are frequent in the messages of API servers and of this package, and are values every now and then.
var words = strings.Fields(`
	after already apiVersion because before cannot cluster complete connection container context create created
	default delete deleted denied disabled does enabled error exist exists expected failed false field file forbidden
	found from function have invalid kind kubernetes line manifest message metadata missing must name namespace none
	null number object operation pending pointer property ready refused rejected replace required resource running
	schema secret server service spec status string supported that this timeout true type unknown unsupported user
	value values version wait with without wrong
`)

// New returns a Redactor for given values, any JSON.
func New(given json.RawMessage) *Redactor {
	s := &Redactor{}
	s.Publish(words...)
	decoder := json.NewDecoder(bytes.NewReader(given))
	decoder.UseNumber()
	var values any
	// Unreadable values cannot be in any text either: nothing is rendered with them.
	if len(given) > 0 && decoder.Decode(&values) == nil {
		s.Learn(values)
	}
	return s
}

// Publish exempts texts from hiding.
func (s *Redactor) Publish(all ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range all {
		s.public.add(text)
	}
}

// Learn hides the values in a JSON value, and publishes the names of its fields.
func (s *Redactor) Learn(value any) {
	switch value := value.(type) {
	case map[string]any:
		s.Publish(slices.Collect(maps.Keys(value))...)
		for _, v := range value {
			s.Learn(v)
		}
	case []any:
		for _, v := range value {
			s.Learn(v)
		}
	case string:
		s.learn(value)
	case json.Number:
		if len(value) > maxDigits {
			s.learn(value.String())
		}
	}
}

// learn hides a value.
func (s *Redactor) learn(value string) {
	if len(value) < shortest {
		return // an escape of it may be longer, but would be found everywhere, too
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values.add(value)
	s.values.add(strings.TrimSpace(value))
	s.values.add(inQuotes(value))
	s.values.add(base64.StdEncoding.EncodeToString([]byte(value)))
	if len(value) <= escapable {
		for _, spelling := range spellings(value) {
			s.values.add(spelling)
		}
	}
	if strings.Contains(value, "\n") {
		// Messages have one line, and YAML is quoted line by line.
		s.values.add(spaces.ReplaceAllString(strings.TrimSpace(value), " "))
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= alone {
				s.values.add(line)
			}
		}
	}
}

// inQuotes is a text as Go quotes it, without the quotes.
func inQuotes(text string) string {
	text = strconv.Quote(text)
	return text[1 : len(text)-1]
}

// spellings are the forms of a text in JSON, in URLs and in base64. Most are the text itself if it has no special
// characters.
func spellings(text string) []string {
	raw, query := []byte(text), url.QueryEscape(text)
	return []string{
		inJSON(text, true), inJSON(text, false),
		query, strings.ReplaceAll(query, "+", "%20"), url.PathEscape(text),
		strings.TrimPrefix(url.UserPassword("", text).String(), ":"),
		base64.RawStdEncoding.EncodeToString(raw), base64.URLEncoding.EncodeToString(raw),
		base64.RawURLEncoding.EncodeToString(raw),
	}
}

// inJSON is a text as Go writes it in JSON, without the quotes: with the special characters of HTML escaped, or
// without.
func inJSON(text string, html bool) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(html)
	if encoder.Encode(text) != nil {
		return text // every string can be encoded
	}
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(b.String()), `"`), `"`)
}

// LearnObject publishes the identity of an object, given as JSON, and learns the content of a Secret.
func (s *Redactor) LearnObject(object json.RawMessage) {
	var content map[string]any
	if json.Unmarshal(object, &content) != nil {
		return // it was parsed before, and would be no object
	}
	s.Publish(fieldNames(content, nil)...)
	for _, name := range []string{"apiVersion", "kind"} {
		if text, ok := content[name].(string); ok {
			s.Publish(text)
		}
	}
	metadata, _ := content["metadata"].(map[string]any)
	for _, name := range []string{"name", "namespace"} {
		if text, ok := metadata[name].(string); ok {
			s.Publish(text)
		}
	}
	if content["kind"] == "Secret" && content["apiVersion"] == "v1" {
		s.LearnSecret(content)
	}
}

// learnEntry hides an entry of a Secret, in base64 or not.
func (s *Redactor) learnEntry(text string) {
	s.learn(text)
	if plain, err := base64.StdEncoding.DecodeString(text); err == nil && utf8.Valid(plain) {
		s.learn(string(plain))
	}
}

func fieldNames(value any, names []string) []string {
	switch value := value.(type) {
	case map[string]any:
		for name, v := range value {
			names = fieldNames(v, append(names, name))
		}
	case []any:
		for _, v := range value {
			names = fieldNames(v, names)
		}
	}
	return names
}

// quoted are the known quotes of libraries, with the text before them.
var quoted = []*regexp.Regexp{
	// YAML shortens its quotes.
	regexp.MustCompile("(cannot unmarshal !!\\w+ )`[^`]*`"),
	regexp.MustCompile("(line \\d+: )(?:mapping key|field) \"[^\"]*\""),
	// strconv.
	regexp.MustCompile(`(parsing )"(?:[^"\\]|\\.)*"`),
	// time, base64 and hex.
	regexp.MustCompile(`(invalid duration )"(?:[^"\\]|\\.)*"`),
	regexp.MustCompile(`(parsing time )"(?:[^"\\]|\\.)*" as "(?:[^"\\]|\\.)*": .*`),
	// Kubernetes' decoders.
	regexp.MustCompile(`(is missing in )'.*'`),
	regexp.MustCompile(`(error found in #\d+ byte of ).*`),
}

// HideCut is Hide for a text without its beginning: it may begin in the middle of a value.
func (s *Redactor) HideCut(text string) string {
	if n := s.endsOfValues(text); n > 0 {
		return hidden + s.Hide(text[n:])
	}
	return s.Hide(text)
}

// endsOfValues returns the length of the longest end of a value at the beginning of a text. An end shorter than alone
// would be found in other texts, too.
func (s *Redactor) endsOfValues(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	longest := 0
	for value := range s.values.known {
		for n := min(len(value), len(text)); n > max(longest, alone-1); n-- {
			if text[:n] == value[len(value)-n:] {
				longest = n
			}
		}
	}
	return longest
}

// Hide returns a text without values.
func (s *Redactor) Hide(text string) string {
	for _, pattern := range quoted {
		text = pattern.ReplaceAllString(text, "${1}"+hidden)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values.sort()
	s.public.sort()
	var b strings.Builder
	for i := 0; i < len(text); {
		word := func(found string) bool { return !joined(text, i) && !joined(text, i+len(found)) }
		public := s.public.at(text, i, word)
		secret := s.values.at(text, i, func(found string) bool { return len(found) >= alone || word(found) })
		switch {
		case secret > public:
			b.WriteString(hidden)
			i += secret
		case public > 0:
			b.WriteString(text[i : i+public])
			i += public
		default:
			b.WriteByte(text[i])
			i++
		}
	}
	return b.String()
}

// joined reports whether there is no end of a word at i.
func joined(text string, i int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:i])
	after, _ := utf8.DecodeRuneInString(text[i:])
	return isWord(before) && isWord(after)
}

func isWord(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) }

// HideError returns an error without values in its text, and otherwise the same; nil for nil.
func (s *Redactor) HideError(err error) error {
	if err == nil {
		return nil
	}
	text := s.Hide(err.Error())
	if text == err.Error() {
		return err
	}
	return &hiddenError{text: text, err: err}
}

// hiddenError is an error with another text.
type hiddenError struct {
	text string
	err  error
}

func (e *hiddenError) Error() string { return e.text }
func (e *hiddenError) Unwrap() error { return e.err }
