package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pergola-deploy/pergola/proto/handshake"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestProtocolPage: the page of the protocol names each call, each message with its fields, and whatever the
// handshake needs.
func TestProtocolPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testenv.Root(), "docs", "protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	text, rows := string(page), tableRows(string(page))

	config := handshake.Config()
	for _, name := range []string{
		config.MagicCookieKey, config.MagicCookieValue, handshake.LifelineEnv, handshake.LogLevelEnv, handshake.ConfinedEnv,
		goplugin.EnvUnixSocketDir, "PLUGIN_PROTOCOL_VERSIONS", "PLUGIN_CLIENT_CERT", "PLUGIN_MIN_PORT", "PLUGIN_MAX_PORT",
		goplugin.GRPCServiceName, strconv.Itoa(handshake.ProtocolVersion),
	} {
		expectNamed(t, "the page", text, name)
	}
	if size := strconv.Itoa(handshake.MaxMessageBytes) + " bytes"; !strings.Contains(text, size) {
		t.Errorf("the page does not say that a message may have %s", size)
	}

	protocol := deployerv1.File_pergola_deployer_v1_deployer_proto
	for service := range all(protocol.Services()) {
		expectNamed(t, "the page", text, string(service.FullName()))
		for method := range all(service.Methods()) {
			expectNamed(t, "the page", text, string(method.Name()))
		}
	}
	for message := range all(protocol.Messages()) {
		row, ok := rows[string(message.Name())]
		if !ok {
			t.Errorf("no table of the page has a row for the message %s", message.Name())
		}
		for field := range all(message.Fields()) {
			expectNamed(t, "the row of "+string(message.Name()), row, string(field.Name()))
		}
	}
}

// tableRows are the rows of a page's tables by the name that each begins with.
func tableRows(page string) map[string]string {
	rows := map[string]string{}
	for _, match := range regexp.MustCompile("(?m)^\\| `(\\w+)` (\\|.*)$").FindAllStringSubmatch(page, -1) {
		rows[match[1]] = match[2]
	}
	return rows
}

func expectNamed(t *testing.T, where, text, name string) {
	t.Helper()
	if !strings.Contains(text, "`"+name+"`") {
		t.Errorf("%s does not name `%s`", where, name)
	}
}

// all iterates over the elements of a list of descriptors.
func all[D protoreflect.Descriptor](list interface {
	Len() int
	Get(i int) D
}) func(yield func(D) bool) {
	return func(yield func(D) bool) {
		for i := range list.Len() {
			if !yield(list.Get(i)) {
				return
			}
		}
	}
}
