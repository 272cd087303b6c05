package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// askTimeout bounds the calls that a plugin must answer at once.
const askTimeout = 10 * time.Second

// introduce asks the plugin who it is, configures it, and settles whether it may serve what it claims.
func (p *Plugin) introduce(ctx context.Context, proc *process) (*Info, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := proc.client.GetInfo(ctx, &deployerv1.GetInfoRequest{HostVersion: p.settings.hostVersion})
	if err != nil {
		return nil, fmt.Errorf("ask the plugin who it is: %w", err)
	}
	info, err := infoFromWire(answer)
	if err != nil {
		return nil, fmt.Errorf("is refused for what it says about itself: %w", err)
	}
	if err := p.recognize(&info); err != nil {
		return nil, refusal(err)
	}
	if err := p.configure(ctx, proc, &info); err != nil {
		return nil, err
	}
	if err := p.settings.claim(p, &info); err != nil {
		return nil, refusal(err)
	}
	return &info, nil
}

// recognize tells what speaks against a plugin that says this about itself.
func (p *Plugin) recognize(info *Info) error {
	if before := p.Info(); before.Name != "" && (before.Name != info.Name || !slices.Equal(before.Types, info.Types)) {
		return fmt.Errorf("has become another plugin (%q for %q instead of %q for %q); restart the host to use it",
			info.Name, info.Types, before.Name, before.Types)
	}
	return p.source.vouch(info)
}

// configure hands over the configuration document, in each life of the process.
func (p *Plugin) configure(ctx context.Context, proc *process, info *Info) error {
	document := p.settings.configs[info.Name]
	if !info.Capabilities.Configure {
		if len(document) > 0 {
			return fmt.Errorf("is refused: there is configuration for it, but the plugin %q takes none; remove plugins.%s.config from the host configuration",
				info.Name, info.Name)
		}
		return nil
	}
	configured, err := proc.client.Configure(ctx, &deployerv1.ConfigureRequest{Document: document})
	if err != nil {
		return fmt.Errorf("configure the plugin: %w", err)
	}
	var problems []error
	for _, problem := range configured.GetProblems() {
		problems = append(problems, fmt.Errorf("%s: %s", bounded(problem.GetField()), bounded(problem.GetMessage())))
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("the plugin refuses its configuration: %w", err)
	}
	return nil
}
