package launch

import (
	"strings"
	"testing"
)

func TestVersionError(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"9": "speaks version 9 of the protocol (it was built with version v0.9.0 of the sdk), " +
			"but this host speaks version 1; run a newer host",
		"0": "the first line on its standard output is no handshake",
	} {
		if err := explainHandshake("1|"+version+"|unix|/socket|grpc", "v0.9.0", nil); !strings.Contains(err.Error(), want) {
			t.Errorf("expected %q, but found: %v", want, err)
		}
	}
}
