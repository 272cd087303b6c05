package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/pergola-deploy/pergola/host/internal/plugin/launch"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

const (
	// askTimeout bounds the calls that a plugin must answer at once.
	askTimeout = 10 * time.Second
	// maxInfoBytes bounds what a plugin says about itself, which has schemas in it, and maxAnswerBytes what it says about
	// its configuration, and each of its wake-ups.
	maxInfoBytes   = 4 << 20
	maxAnswerBytes = 1 << 20
	// maxProblems bounds the problems with a configuration that are told.
	maxProblems = 16
)

// introduce asks the plugin who it is, configures it, and settles whether it may serve what it claims.
func (p *Plugin) introduce(ctx context.Context, proc *process) (*Info, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := proc.client.GetInfo(ctx, &deployerv1.GetInfoRequest{HostVersion: p.settings.HostVersion},
		grpc.MaxCallRecvMsgSize(maxInfoBytes))
	if err != nil {
		return nil, fmt.Errorf("ask the plugin who it is: %s", bounded(err.Error()))
	}
	info, err := hostside.ReadInfo(answer)
	if err != nil {
		return nil, fmt.Errorf("is refused for what it says about itself: %w", err)
	}
	if err := p.recognize(&info); err != nil {
		return nil, launch.Refuse(err)
	}
	if err := p.configure(ctx, proc, &info); err != nil {
		return nil, err
	}
	if err := p.settings.claim(p, &info); err != nil {
		return nil, launch.Refuse(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.build = p.buildOf(&info)
	return &info, nil
}

// buildOf is what Build returns of a plugin that says this about itself.
func (p *Plugin) buildOf(info *Info) string {
	digest := sha256.Sum256(slices.Concat([]byte(p.sum+"\x00"+info.Version+"\x00"), p.settings.Configs[info.Name]))
	return hex.EncodeToString(digest[:8])
}

// recognize tells what speaks against a plugin that says this about itself.
func (p *Plugin) recognize(info *Info) error {
	if before := p.Info(); before.Name != "" && (before.Name != info.Name || !slices.Equal(before.Types, info.Types)) {
		return fmt.Errorf("has become another plugin (%q for %q instead of %q for %q); restart the host to use it",
			info.Name, info.Types, before.Name, before.Types)
	}
	if p.program == nil {
		return nil
	}
	return launch.CheckName(p.settings.Profiles, p.file, info.Name)
}

// configure hands over the configuration document, in each life of the process.
func (p *Plugin) configure(ctx context.Context, proc *process, info *Info) error {
	document := p.settings.Configs[info.Name]
	if !info.Capabilities.Configure {
		if len(document) > 0 {
			return fmt.Errorf("is refused: there is configuration for it, but the plugin %q takes none; remove "+
				"plugins.%s.config from the host configuration",
				info.Name, info.Name)
		}
		return nil
	}
	configured, err := proc.client.Configure(ctx, &deployerv1.ConfigureRequest{Document: document},
		grpc.MaxCallRecvMsgSize(maxAnswerBytes))
	if err != nil {
		return fmt.Errorf("configure the plugin: %s", bounded(err.Error()))
	}
	if err := problemsFromWire(configured.GetProblems()); err != nil {
		return fmt.Errorf("the plugin refuses its configuration: %w", err)
	}
	info.MaxCalls = int(configured.GetMaxCalls())
	return nil
}

// problemsFromWire returns the first problems of a configuration, and how many more there are; nil if there are none.
func problemsFromWire(in []*deployerv1.Problem) error {
	told := in[:min(len(in), maxProblems)]
	problems := make([]error, 0, len(told)+1)
	for _, problem := range told {
		problems = append(problems, fmt.Errorf("%s: %s", cut(problem.GetField(), maxText), bounded(problem.GetMessage())))
	}
	if more := len(in) - len(told); more > 0 {
		problems = append(problems, fmt.Errorf("and %d more", more))
	}
	return errors.Join(problems...)
}
