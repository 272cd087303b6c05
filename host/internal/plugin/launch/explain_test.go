package launch

import (
	"errors"
	"strings"
	"testing"
)

func TestExplainHandshake(t *testing.T) {
	t.Parallel()
	for line, test := range map[string]struct {
		err  error // of go-plugin
		want string
	}{
		"Hello, I am none": {nil, "is no Pergola plugin: the first line on its standard output is no handshake: Hello, I"},
		"1|0|unix|/s|grpc": {nil, "the first line on its standard output is no handshake"},
		"1|9|unix|/s|grpc": {nil, "speaks version 9 of the protocol (it was built with version v0.9.0 of the sdk), " +
			"but this host speaks version 1; run a newer host"},
		"1|1|unix|/s":        {nil, "does not serve gRPC"},
		"1|1|unix|/s|netrpc": {nil, "does not serve gRPC"},
		"1|1|unix|/s|grpc":   {errors.New("no such socket\nand more"), "cannot be reached: no such socket"},
		"1|1|tcp|:1|grpc":    {errElsewhere, errElsewhere.Error()},
	} {
		if err := explainHandshake(line, "v0.9.0", test.err); !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: expected %q, but found: %v", line, test.want, err)
		}
	}
}
