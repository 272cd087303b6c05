package session

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

const (
	// maxInfoBytes bounds the plugin's description of itself, with its schemas.
	maxInfoBytes = 4 << 20
	// maxProblems bounds the problems of a configuration in an error.
	maxProblems = 16
)

// Info asks the plugin for its description of itself.
func (s *Session) Info(ctx context.Context, hostVersion string) (*hostside.Info, error) {
	answer, err := s.client.GetInfo(ctx, &deployerv1.GetInfoRequest{HostVersion: hostVersion},
		grpc.MaxCallRecvMsgSize(maxInfoBytes))
	if err != nil {
		return nil, fmt.Errorf("ask the plugin who it is: %s", hostside.Bounded(err.Error()))
	}
	info, err := hostside.ReadInfo(answer)
	if err != nil {
		return nil, fmt.Errorf("is refused for what it says about itself: %w", err)
	}
	return &info, nil
}

// Configure hands over the configuration document, and returns the number of calls at once; zero for any.
func (s *Session) Configure(ctx context.Context, document []byte) (maxCalls int, err error) {
	configured, err := s.client.Configure(ctx, &deployerv1.ConfigureRequest{Document: document},
		grpc.MaxCallRecvMsgSize(maxAnswerBytes))
	if err != nil {
		return 0, fmt.Errorf("configure the plugin: %s", hostside.Bounded(err.Error()))
	}
	if err := problemsOf(configured); err != nil {
		return 0, fmt.Errorf("the plugin refuses its configuration: %w", err)
	}
	return int(configured.GetMaxCalls()), nil
}

// problemsOf returns the first problems of a configuration, and the number of the others; nil for none.
func problemsOf(in *deployerv1.ConfigureResponse) error {
	all := in.GetProblems()
	first := all[:min(len(all), maxProblems)]
	problems := make([]error, 0, len(first)+1)
	for _, problem := range first {
		read := hostside.ReadProblem(problem)
		if read.Field != "" { // else it is about the document itself
			read.Message = read.Field + ": " + read.Message
		}
		problems = append(problems, errors.New(read.Message))
	}
	if more := len(all) - len(first); more > 0 {
		problems = append(problems, fmt.Errorf("and %d more", more))
	}
	return errors.Join(problems...)
}
