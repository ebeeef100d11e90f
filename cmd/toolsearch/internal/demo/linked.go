package demo

import (
	"context"
	"encoding/json"
	"fmt"

	"toolsearch/cmd/toolsearch/internal/sample"
	"toolsearch/connectors/gatewaytest"
	"toolsearch/subjects"
)

const chatTool = "connectors__chat__POST_MESSAGE"

// linked plays a batch that needs an account, the link, the user's consent, and the batch going through.
func (s *stage) linked(ctx context.Context) error {
	s.say.scene("An account that is missing, and linked")
	s.say.text("A batch needs an account that the user has not linked. The error names the app; manage_connections gives a link for it, the " +
		"user consents on the app's page, and the same batch goes through. Only the user can disconnect it again.")
	s.gateway.ClearFaults()
	yes := true
	got, err := s.agent.Assemble(ctx, &subjects.AssembleRequest{Tools: sample.JSON(sample.Tools()), Connectors: &yes, ContextLength: &contextLength})
	if err != nil {
		return err
	}
	scope := subjects.Handle(got.Scope)
	args := fmt.Sprintf(`{"calls": [{"name": %q, "arguments": {"channel": "party", "text": "See you"}}]}`, chatTool)
	s.say.model("tool_call", args)
	needs, err := s.agent.Call(ctx, subjects.CallRequest{Scope: scope, Arguments: json.RawMessage(args)}, s.say.event)
	if err != nil {
		return err
	}
	if needs.Batch == nil || needs.Batch.Results[0].Error == nil || needs.Batch.Results[0].Error.Code != subjects.EntryConnectionRequired {
		return unexpected("the call without an account", string(needs.Raw))
	}
	link, err := s.link(ctx, scope, needs.Batch.Results[0].Error.Connector)
	if err != nil {
		return err
	}
	if err := gatewaytest.Consent(ctx, link, true); err != nil {
		return err
	}
	s.say.line(s.Out.Dim("user   > ") + s.Out.Good("Allow") + " on the consent page")
	s.say.model("tool_call", args)
	done, err := s.agent.Call(ctx, subjects.CallRequest{Scope: scope, Arguments: json.RawMessage(args)}, s.say.event)
	if err != nil {
		return err
	}
	if done.Batch == nil || done.Batch.SuccessCount != 1 {
		return unexpected("the call with the account", string(done.Raw))
	}
	s.say.text("The account is linked: 1 of 1 ran.")
	return nil
}

// link asks for a link as the model does.
func (s *stage) link(ctx context.Context, scope subjects.Scope, app string) (string, error) {
	args := fmt.Sprintf(`{"action": "connect", "connectors": [%q]}`, app)
	s.say.model("manage_connections", args)
	got, err := s.agent.Connections(ctx, subjects.CallRequest{Scope: scope, Arguments: json.RawMessage(args)})
	if err != nil {
		return "", err
	}
	if got.Outcome == nil || got.Outcome.Status != "initiated" {
		return "", unexpected("the link", string(got.Raw))
	}
	s.say.result(string(got.Raw), 5)
	return got.Outcome.Targets[0].ConnectURL, nil
}
