"""The study of claims: does a new memory contradict what is known, and who may change it?"""
