package redact

import (
	"encoding/json"
	"regexp"
)

// identifying are the fields of objects essential for messages: they identify the object, or the part of it, in
// question. Maps with these names hold nothing else.
var identifying = map[string]bool{
	"apiGroup": true, "apiVersion": true, "generateName": true, "group": true, "image": true, "kind": true,
	"labels": true, "matchLabels": true, "name": true, "namespace": true, "selector": true,
}

// aWord is a value that may be an ordinary word, such as LoadBalancer.
var aWord = regexp.MustCompile(`^[A-Za-z]+$`)

// LearnContent hides the content of an object or a patch of one, and publishes the identity of it and its parts. A
// value that may be an ordinary word is hidden where it is quoted.
func (s *Redactor) LearnContent(value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, v := range value {
			s.Publish(name)
			if identifying[name] {
				s.publishAll(v)
			} else {
				s.LearnContent(v)
			}
		}
	case []any:
		for _, v := range value {
			s.LearnContent(v)
		}
	case string:
		if aWord.MatchString(value) {
			s.learn(`"` + value + `"`)
			s.learn("'" + value + "'")
			s.learn("`" + value + "`")
		} else {
			s.learn(value)
		}
	case json.Number:
		s.Learn(value)
	}
}

func (s *Redactor) publishAll(value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, v := range value {
			s.Publish(name)
			s.publishAll(v)
		}
	case []any:
		for _, v := range value {
			s.publishAll(v)
		}
	case string:
		s.Publish(value)
	}
}

// LearnSecret hides the content of a Secret, or of a patch of one.
func (s *Redactor) LearnSecret(content map[string]any) {
	for _, field := range []string{"data", "stringData"} {
		entries, _ := content[field].(map[string]any)
		for name, entry := range entries {
			s.Publish(name)
			if text, ok := entry.(string); ok {
				s.learnEntry(text)
			}
		}
	}
}
