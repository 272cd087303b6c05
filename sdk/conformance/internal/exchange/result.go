package exchange

import (
	"bytes"
	"encoding/json"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// partOf is the rule about a part of a result.
var partOf = map[hostside.Part]Breach{
	hostside.PartOutcome: Result, hostside.PartConditions: Conditions, hostside.PartProviderStatus: ProviderStatus,
}

// finish takes the result. The error says that it has no outcome.
func (x *conversation) finish(in *deployerv1.Result) error {
	outcome, err := hostside.ReadResult(in)
	if err != nil {
		x.breaks(OneResult, "%v", err)
		return err
	}
	for _, flaw := range outcome.Flaws {
		x.breaks(partOf[flaw.Part], "%s", flaw.Text)
	}
	x.end.Outcome = outcome
	if outcome.Succeeded != nil {
		x.end.Exports = decodeExports(outcome.Succeeded.Exports)
	}
	return nil
}

// decodeExports reads exports without a loss of digits; nil for none, and for wrong ones.
func decodeExports(document []byte) (exports map[string]any) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	if decoder.Decode(&exports) != nil {
		return nil
	}
	return exports
}
