"""AgentDojo with a language model that acts: utility and attack success under four defences."""
