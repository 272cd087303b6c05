package worker

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// kind says what a message is about. A message is its kind, the length of its content in four bytes, and the content in JSON.
type kind byte

// Messages of a worker.
const (
	// kindHello is the first one. It has no content.
	kindHello kind = 'h'
	// kindObject is an object of the list that kindRendered or kindResult ends. Both sides send it.
	kindObject kind = 'o'
	// kindDefinition and kindHook are for the lists of kindResult.
	kindDefinition kind = 'd'
	kindHook       kind = 'k'
	// kindRendered asks which objects are to be created instead of those before it. It is asked once.
	kindRendered kind = 'r'
	kindProgress kind = 'p'
	kindLog      kind = 'l'
	// One of these is the last message. kindCancelled has no content.
	kindResult    kind = 'f'
	kindError     kind = 'e'
	kindCancelled kind = 'x'
)

// Messages to a worker.
const (
	kindRequest kind = 'q'
	// kindInstead ends the list of objects that is the answer to kindRendered, and kindRefused is the other answer. Neither has content.
	kindInstead kind = 'i'
	kindRefused kind = 'n'
	// kindStop asks to leave off. It has no content.
	kindStop kind = 's'
)

// progress is the content of kindProgress.
type progress struct {
	Step    string `json:"step"`
	Message string `json:"message"`
}

const (
	headerBytes = 5
	// maxRequestBytes is how long a message to a worker may be.
	maxRequestBytes = 256 << 20
	// startBytes is how much is set aside for a message before any of it has come.
	startBytes = 64 << 10
)

var (
	// errNonsense says that what was received is no message that there is at that point.
	errNonsense = errors.New("it talks nonsense")
	// errTooMuch says that a message is longer than it may be.
	errTooMuch = errors.New("it says too much")
	// errTooLong says that what is to be sent does not fit into a message.
	errTooLong = errors.New("too long for a message")
)

// appendMessage appends a message to a buffer. content may be nil.
func appendMessage(to *bytes.Buffer, k kind, content any) error {
	header := to.Len()
	to.Write([]byte{byte(k), 0, 0, 0, 0})
	if content == nil {
		return nil
	}
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(content); err != nil {
		to.Truncate(header)
		return fmt.Errorf("write a message: %w", err)
	}
	length := to.Len() - header - headerBytes
	if length > maxRequestBytes {
		to.Truncate(header)
		return fmt.Errorf("write a message: %w: %d bytes", errTooLong, length)
	}
	binary.BigEndian.PutUint32(to.Bytes()[header+1:], uint32(length)) // #nosec G115 -- it is less than maxRequestBytes
	return nil
}

// appendObjects appends a message for each object.
func appendObjects(to *bytes.Buffer, k kind, objects []helm.Object) error {
	for i := range objects {
		if err := appendMessage(to, k, &objects[i]); err != nil {
			return err
		}
	}
	return nil
}

// readMessage reads a message. admit tells for a kind how long its content may be, or why there must not be such a message. Memory is taken
// as the content comes, whatever length was announced. The error is io.EOF if there is no further message. With errTooMuch comes the kind of
// the message.
func readMessage(from io.Reader, admit func(kind) (int64, error)) (kind, []byte, error) {
	var header [headerBytes]byte
	if _, err := io.ReadFull(from, header[:]); err != nil {
		return 0, nil, err
	}
	k, length := kind(header[0]), int64(binary.BigEndian.Uint32(header[1:]))
	most, err := admit(k)
	if err != nil {
		return 0, nil, err
	}
	if length > most {
		return k, nil, errTooMuch
	}
	var content bytes.Buffer
	content.Grow(int(min(length, startBytes)))
	if n, err := io.CopyN(&content, from, length); err != nil {
		if errors.Is(err, io.EOF) && n < length {
			return 0, nil, io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return k, content.Bytes(), nil
}

// isObject tells whether a JSON text, which is known to be one, is an object.
func isObject(text json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{"))
}
