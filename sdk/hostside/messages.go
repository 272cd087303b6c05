package hostside

import (
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// StartMessage begins an operation.
func StartMessage(start *deployerv1.Start) *deployerv1.HostMessage {
	return &deployerv1.HostMessage{Content: &deployerv1.HostMessage_Start{Start: start}}
}

// StopMessage asks the plugin to end an operation soon.
func StopMessage(reason string) *deployerv1.HostMessage {
	return &deployerv1.HostMessage{Content: &deployerv1.HostMessage_Stop{Stop: &deployerv1.Stop{Reason: Bounded(reason)}}}
}

// Acknowledgement answers a provider status: it is saved, or not because of err.
func Acknowledgement(sequence uint64, err error) *deployerv1.HostMessage {
	ack := &deployerv1.Acknowledgement{Sequence: sequence}
	if err != nil {
		ack.Error = Bounded(err.Error())
	}
	return &deployerv1.HostMessage{Content: &deployerv1.HostMessage_Acknowledgement{Acknowledgement: ack}}
}

// TargetAnswer answers a question for a Target: with its JSON, or with why there is none.
func TargetAnswer(sequence uint64, target []byte, problem *Error) *deployerv1.HostMessage {
	out := &deployerv1.ResolvedTarget{Sequence: sequence, Target: target, Error: problem.toWire()}
	return &deployerv1.HostMessage{Content: &deployerv1.HostMessage_ResolvedTarget{ResolvedTarget: out}}
}

// CredentialsAnswer answers a question for the credentials of a Secret, or with why it could not be read.
func CredentialsAnswer(sequence uint64, found *sdk.RegistryCredentials, problem *Error) *deployerv1.HostMessage {
	out := &deployerv1.ResolvedRegistryCredentials{Sequence: sequence, Error: problem.toWire()}
	if found != nil {
		out.Credentials = registryToWire(*found)
	}
	return &deployerv1.HostMessage{
		Content: &deployerv1.HostMessage_ResolvedRegistryCredentials{ResolvedRegistryCredentials: out},
	}
}

func (e *Error) toWire() *deployerv1.Error {
	if e == nil {
		return nil
	}
	return &deployerv1.Error{
		Codes:     wire.Each(e.Codes, func(code v1alpha1.ErrorCode) string { return string(code) }),
		Operation: e.Operation, Reason: e.Reason, Message: Bounded(e.Message),
	}
}
