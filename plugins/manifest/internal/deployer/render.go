package deployer

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pergola-deploy/pergola/sdk"
)

// Render implements sdk.Renderer. It needs no target: values of the target, such as the default namespace of an
// object, are added at the apply, and so is the label of the deploy item, to keep it from changes by others.
//
// The name of a child is the path of its object in the provider configuration, such as "manifests[2].manifest".
func (d *Deployer) Render(_ context.Context, req *sdk.Request) (*sdk.RenderResponse, error) {
	c, err := d.readConfig(req)
	if err != nil {
		return nil, err
	}
	res := &sdk.RenderResponse{}
	for _, m := range c.Manifests {
		document, err := json.Marshal(m.Object.Object)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", m.Path, err)
		}
		res.Children = append(res.Children, sdk.Child{Name: m.Path.String(), Object: document})
	}
	return res, nil
}
